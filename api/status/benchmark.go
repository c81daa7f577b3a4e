package status

import "strings"

// ValidBenchmark says whether a text of at most so many bytes can be the name of a benchmark.
func ValidBenchmark(name string, most int) bool {
	return name != "" && len(name) <= most &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,"'\`, r) })
}
