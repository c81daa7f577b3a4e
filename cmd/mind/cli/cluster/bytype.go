package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// byType are limits of GPUs by type.
type byType map[string]int

// String returns "A100=8, H100=16", or "none".
func (t byType) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		all = append(all, name+"="+strconv.Itoa(t[name]))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// Set parses the limits of a flag, such as H100=16,A100=64.
func (t *byType) Set(text string) error {
	if *t == nil {
		*t = byType{}
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(pair), "=")
		n, err := strconv.Atoi(number)
		switch _, again := (*t)[name]; {
		case name == "" || err != nil:
			return fmt.Errorf("%q is not of the form TYPE=GPUS, such as H100=16", pair)
		case again:
			return fmt.Errorf("%s is given twice", name)
		}
		(*t)[name] = n
	}
	return nil
}

// Type returns the form of the value for the help.
func (t *byType) Type() string { return "TYPE=GPUS" }

// of formats the GPUs in use of each type, with the limits: "A100: 4 of any, H100: 2 of 16".
func (t byType) of(held map[string]float64) string {
	names := map[string]bool{}
	for name := range held {
		names[name] = true
	}
	for name := range t {
		names[name] = true
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var limit *int
		if most, ok := t[name]; ok {
			limit = &most
		}
		all = append(all, name+": "+ofLimit(strconv.FormatFloat(held[name], 'f', -1, 64), limit))
	}
	return strings.Join(all, ", ")
}
