package model

import (
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Datasets lists the datasets of an evaluation's benchmarks that nodes fetch, each once. One that is a path is on the node
// already.
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
