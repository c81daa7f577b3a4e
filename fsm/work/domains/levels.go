package domains

import (
	"fmt"
	"strings"
)

// Clique is the label of the innermost level: the nodes whose GPUs reach each other over NVLink. Agents give it to
// nodes of which the driver tells it.
const Clique = "mind.io/clique"

// Default is the levels of a cluster that has set none.
const Default = Clique + ",mind.io/leaf,mind.io/spine,mind.io/block"

const (
	maxLevels = 8
	maxLabel  = 128
)

// Level is a kind of domain.
type Level struct {
	// Label of nodes: its value is the domain.
	Label string
	// Name is the part of the label after the last "/".
	Name string
}

// NameOf is the name of the level that a label makes.
func NameOf(label string) string { return label[strings.LastIndexByte(label, '/')+1:] }

// Levels are those of a list of labels, innermost first; empty: the default.
func Levels(list string) []Level {
	if list == "" {
		list = Default
	}
	var levels []Level
	for label := range strings.SplitSeq(list, ",") {
		levels = append(levels, Level{Label: label, Name: NameOf(label)})
	}
	return levels
}

// Find is the level of a name or a label.
func Find(levels []Level, name string) (Level, bool) {
	for _, l := range levels {
		if l.Name == name || l.Label == name {
			return l, true
		}
	}
	return Level{}, false
}

// Names lists levels for people: "clique, leaf".
func Names(levels []Level) string {
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.Name
	}
	return strings.Join(names, ", ")
}

// Validate says what is wrong with a list of labels.
func Validate(list string) error {
	if list == "" {
		return nil
	}
	levels := Levels(list)
	if len(levels) > maxLevels {
		return fmt.Errorf("topology.levels has %d labels: use at most %d", len(levels), maxLevels)
	}
	for i, l := range levels {
		if l.Name == "" || len(l.Label) > maxLabel || strings.ContainsAny(l.Label, " =\t\n") {
			return fmt.Errorf("topology.levels: %q is no label: use names such as mind.io/leaf, separated by commas", l.Label)
		}
		if other, twice := Find(levels[:i], l.Name); twice {
			return fmt.Errorf("topology.levels: %s and %s are both called %s: use labels that end differently", other.Label, l.Label, l.Name)
		}
	}
	return nil
}
