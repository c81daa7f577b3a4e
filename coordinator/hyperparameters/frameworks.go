package hyperparameters

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Framework returns the faults of a framework's strategy and configuration. The name of a fault is strategy, or a key.
func Framework(framework, strategy string, config map[string]string) (faults []Fault) {
	l, _ := load()
	known, ok := l.Frameworks[framework]
	if !ok {
		return nil
	}
	if !slices.Contains(known.Strategies, strings.ToLower(strategy)) {
		named := slices.DeleteFunc(slices.Clone(known.Strategies), func(s string) bool { return s == "" })
		faults = append(faults, Fault{"strategy", fmt.Sprintf("is %.80q, and must be one of %s", strategy, strings.Join(named, ", "))})
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		switch {
		case len(known.Keys) > 0 && !slices.Contains(known.Keys, strings.TrimPrefix(key, "fsdp_")):
			faults = append(faults, Fault{key, fmt.Sprintf("is not a key of %s; it takes %s", framework, strings.Join(known.Keys, ", "))})
		case framework == "DEEPSPEED" && key == "zero_stage" && !slices.Contains([]string{"0", "1", "2", "3"}, config[key]):
			faults = append(faults, Fault{key, fmt.Sprintf("is %.80q, and must be 0, 1, 2 or 3", config[key])})
		}
	}
	return faults
}
