// Package hyperparameters knows the hyperparameters of the trainings that the built-in launchers start: their names, and
// which values each takes.
//
// The list is generated (make train-names) from the configurations of the Python libraries that carry out the
// trainings, by `python -m mind_runner names`, and contains their versions. A node with other versions may accept other
// names; its runner checks again.
//
// Guarantee: the runner, with the libraries of the list, refuses everything that this package refuses.
package hyperparameters

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed names.json
var names []byte

// list is the content of names.json, which python/src/mind_runner/names.py writes.
type list struct {
	Versions map[string]string `json:"versions"`
	// Types has the groups of names that each training type accepts. A later group replaces names of an earlier one.
	Types  map[string][]string        `json:"types"`
	Groups map[string]map[string]spec `json:"groups"`
	// Aliases are other names of hyperparameters.
	Aliases map[string]string `json:"aliases"`
	// Reserved names, for a hyperparameter, the field of the request that sets it instead.
	Reserved         map[string]string `json:"reserved"`
	ReservedPrefixes map[string]string `json:"reserved_prefixes"`
	// Frameworks has the strategies and configuration keys of each framework.
	Frameworks map[string]struct {
		Strategies []string `json:"strategies"`
		Keys       []string `json:"keys"`
	} `json:"frameworks"`
}

// load reads the list once, and computes the names of each training type.
var load = sync.OnceValues(func() (list, map[string]map[string]spec) {
	var l list
	if err := json.Unmarshal(names, &l); err != nil {
		panic(fmt.Sprintf("names.json: %v", err)) // it is part of the program
	}
	types := map[string]map[string]spec{}
	for training, groups := range l.Types {
		types[training] = map[string]spec{}
		for _, group := range groups {
			maps.Copy(types[training], l.Groups[group])
		}
	}
	return l, types
})

// Fault describes what is wrong with one hyperparameter, in a sentence without its name.
type Fault struct{ Name, Says string }

// Check returns the faults of the hyperparameters of a training type, by name. It finds none for a type that the list
// lacks.
func Check(training string, given map[string]string) []Fault {
	l, types := load()
	known, ok := types[training]
	if !ok {
		return nil
	}
	var faults []Fault
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		meant := l.meant(known, name, given[name])
		s, ok := known[meant]
		switch {
		case !ok:
			faults = append(faults, Fault{name, l.unknown(types, training, name)})
			continue
		case seen[meant] != "":
			faults = append(faults, Fault{name, fmt.Sprintf("means the same as %s: give one of them", seen[meant])})
		case !s.takes(meant, given[name]):
			faults = append(faults, Fault{name, fmt.Sprintf("is %.80q, and must be %s", given[name], s.wants())})
		case s.outOf(given[name]) != "":
			faults = append(faults, Fault{name, fmt.Sprintf("is %.80q, and must be %s", given[name], s.outOf(given[name]))})
		}
		seen[meant] = name
	}
	return faults
}

// Together returns the faults of hyperparameters that are valid one by one, but not together.
func Together(training string, given map[string]string) (faults []Fault) {
	l, types := load()
	values := map[string]string{}
	for name, value := range given {
		values[l.meant(types[training], name, value)] = value
	}
	if both := isTrue(values["bf16"]) && isTrue(values["fp16"]); both {
		faults = append(faults, Fault{"fp16", "is true, and so is bf16: give one of them"})
	}
	if training == "RLHF" && is("null", values["reward_function"]) && is("null", values["reward_model_id"]) {
		faults = append(faults, Fault{"reward_function", "is required, or reward_model_id: RLHF needs a reward; write FILE.py:NAME or MODULE:NAME"})
	}
	return faults
}

func isTrue(value string) bool { return strings.EqualFold(value, "true") || value == "1" }

// meant resolves an alias of a hyperparameter.
func (l *list) meant(known map[string]spec, name, value string) string {
	// peft has both: which biases are trained, and whether the adapter has biases of its own.
	if _, ok := known["bias"]; ok && name == "lora_bias" && slices.Contains(known["bias"].Choices, value) {
		return "bias"
	}
	if _, ok := known[name]; ok || l.Aliases[name] == "" {
		return name
	}
	return l.Aliases[name]
}

func (l *list) unknown(types map[string]map[string]spec, training, name string) string {
	instead := l.Reserved[name]
	for prefix, what := range l.ReservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			instead = what
		}
	}
	if instead != "" {
		return "is not a hyperparameter: it is set by " + instead
	}
	var others []string
	for other, known := range types {
		if _, ok := known[l.meant(known, name, "")]; ok {
			others = append(others, other)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return fmt.Sprintf("is a hyperparameter of %s, not of %s", strings.Join(others, ", "), training)
	}
	candidates := slices.Collect(maps.Keys(types[training]))
	for alias, of := range l.Aliases {
		if _, ok := types[training][of]; ok {
			candidates = append(candidates, alias)
		}
	}
	hint := ""
	if near := nearest(name, candidates); near != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", near)
	}
	return fmt.Sprintf("is not a hyperparameter of %s%s; `python3 -m mind_runner names %s` lists them", training, hint, training)
}
