package status

import "strings"

// ValidBenchmark reports whether a text is a valid name of a benchmark, with at most the given number of bytes.
func ValidBenchmark(name string, most int) bool {
	return name != "" && len(name) <= most &&
		!strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,"'\`, r) })
}
