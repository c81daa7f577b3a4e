package domains

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxExclude is how long a canonical list of nodes to leave out may be, in bytes.
const MaxExclude = 4096

// CanonicalExclude makes a list of nodes to leave out: sorted, each once, joined with commas. Each is a node id, or a
// pattern with * and ? for several.
func CanonicalExclude(nodes []string) (string, error) {
	var list []string
	for _, n := range nodes {
		for one := range strings.SplitSeq(n, ",") {
			if one = strings.TrimSpace(one); one == "" {
				continue
			}
			if _, err := path.Match(one, ""); err != nil || strings.ContainsAny(one, "/\\") {
				return "", fmt.Errorf("%q is no node and no pattern such as rack1-*", one)
			}
			list = append(list, one)
		}
	}
	slices.Sort(list)
	out := strings.Join(slices.Compact(list), ",")
	if len(out) > MaxExclude {
		return "", fmt.Errorf("is %d bytes long; at most %d are kept: use patterns such as rack1-*", len(out), MaxExclude)
	}
	return out, nil
}

// Excludes says whether a node is on a canonical list.
func Excludes(list, node string) bool {
	for list != "" {
		var one string
		one, list, _ = strings.Cut(list, ",")
		if one == node {
			return true
		}
		if strings.ContainsAny(one, "*?[") {
			if match, err := path.Match(one, node); err == nil && match {
				return true
			}
		}
	}
	return false
}
