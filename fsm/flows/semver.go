package flows

import (
	"strconv"
	"strings"
)

// FirstVersion is the name of the first version when the content names none.
const FirstVersion = "0.1.0"

// maxFirst bounds each number of a first version, so that no flow lives long enough to run out of patches.
const maxFirst = 1_000_000

// parseVersion reads a semantic version of three numbers, without leading zeros and without anything behind them.
func parseVersion(name string) (numbers [3]uint64, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != len(numbers) {
		return numbers, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 63)
		if err != nil || strconv.FormatUint(n, 10) != p {
			return numbers, false
		}
		numbers[i] = n
	}
	return numbers, true
}

// CanBeFirst says whether a version may be the first of a flow: three numbers of at most a million.
func CanBeFirst(name string) bool {
	numbers, ok := parseVersion(name)
	return ok && max(numbers[0], numbers[1], numbers[2]) <= maxFirst
}

// Next is the version after one: its patch is one more.
func Next(name string) string {
	numbers, _ := parseVersion(name)
	cut := strings.LastIndexByte(name, '.') + 1
	return name[:cut] + strconv.FormatUint(numbers[2]+1, 10)
}
