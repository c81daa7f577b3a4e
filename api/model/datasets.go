package model

import (
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Datasets lists the datasets of an evaluation's benchmarks that nodes must fetch, each once. A dataset with a path is
// on the nodes already.
func Datasets(e *v1.EvaluationConfig) []string {
	var fetched []string
	for _, b := range e.GetBenchmarks() {
		uri := b.GetDataset()
		scheme, _, ok := strings.Cut(uri, "://")
		if ok && scheme != "file" && !slices.Contains(fetched, uri) {
			fetched = append(fetched, uri)
		}
	}
	return fetched
}
