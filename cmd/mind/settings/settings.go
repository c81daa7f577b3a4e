// Package settings reads the configuration of a component from a YAML file, from MIND_* variables and from flags.
//
// Contract: a key is declared once, as a Key that points at the field that it sets. Its name in the file (data_dir), its
// variable (MIND_DATA_DIR), its flag (--data-dir) and its help come from that declaration. A flag overrides a variable, a
// variable overrides the file, and the file overrides the default. An undeclared key in the file is an error that names the
// line, and so is a value that does not parse.
//
// Not guaranteed: that the configuration is valid as a whole. The component's own Validate checks that.
package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Key declares one setting.
type Key struct {
	// Name is the name in the file, such as "data_dir".
	Name string
	// Help is a sentence that gives unit and default.
	Help string
	// Into receives the value: a pointer to a string, bool, int, int64, time.Duration, []string or map[string]string,
	// or a Value.
	Into any
	// Secret: the value should be in the file or the variable, as the help says.
	Secret bool
}

// Value is a setting of another type.
type Value interface {
	// SetText sets the value from the text of a flag or variable.
	SetText(string) error
	// SetNode sets the value from a node of the file.
	SetNode(*yaml.Node) error
}

// Variable returns the name of the environment variable of a key.
func (k Key) Variable() string { return "MIND_" + strings.ToUpper(k.Name) }

// Flag returns the name of the flag of a key, without dashes.
func (k Key) Flag() string { return strings.ReplaceAll(k.Name, "_", "-") }

// Set has the keys of one component, bound to a set of flags.
type Set struct {
	keys  []Key
	flags map[string]*flagValue
}

// Bind adds a flag for each key. The values reach the fields at Load, not before.
func Bind(fs *pflag.FlagSet, keys []Key) *Set {
	s := &Set{keys: keys, flags: map[string]*flagValue{}}
	for _, k := range keys {
		v := &flagValue{kind: kindOf(k.Into)}
		s.flags[k.Name] = v
		help := k.Help
		if k.Secret {
			help += " (better in the file or in " + k.Variable() + ": others can read flags)"
		}
		f := fs.VarPF(v, k.Flag(), "", help)
		if v.kind == "bool" {
			f.NoOptDefVal = "true"
		}
	}
	return s
}

// flagValue keeps the text of a flag until Load.
type flagValue struct {
	kind  string
	text  string
	given bool
}

func (v *flagValue) String() string { return "" }
func (v *flagValue) Type() string   { return v.kind }
func (v *flagValue) Set(text string) error {
	v.text, v.given = text, true
	return nil
}

// Load fills the fields: from the file (none if its name is empty), then from the environment, then from the flags. It
// returns all faults, joined.
func (s *Set) Load(file string, lookup func(string) (string, bool)) error {
	var faults []error
	if file != "" {
		faults = append(faults, s.loadFile(file)...)
	}
	for _, k := range s.keys {
		if text, ok := lookup(k.Variable()); ok {
			if err := setText(k.Into, text); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", k.Variable(), err))
			}
		}
		if f := s.flags[k.Name]; f.given {
			if err := setText(k.Into, f.text); err != nil {
				faults = append(faults, fmt.Errorf("--%s: %w", k.Flag(), err))
			}
		}
	}
	return errors.Join(faults...)
}

func (s *Set) loadFile(file string) (faults []error) {
	f, err := os.Open(file)
	if err != nil {
		return []error{fmt.Errorf("reading the configuration: %w", err)}
	}
	defer f.Close()
	var document yaml.Node
	decoder := yaml.NewDecoder(f)
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	root := document.Content[0]
	var next yaml.Node
	if err := decoder.Decode(&next); err == nil {
		return []error{fmt.Errorf("%s:%d: a second document begins here: one file has one configuration", file, next.Line)}
	} else if !errors.Is(err, io.EOF) {
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	if root.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: expected keys with values", file, root.Line)}
	}
	known := map[string]Key{}
	for _, k := range s.keys {
		known[k.Name] = k
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		k, ok := known[name.Value]
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("%s:%d: there is no key %q%s", file, name.Line, name.Value, s.didYouMean(name.Value)))
		case seen[name.Value]:
			faults = append(faults, fmt.Errorf("%s:%d: %q is there twice", file, name.Line, name.Value))
		default:
			seen[name.Value] = true
			if err := setNode(k.Into, value); err != nil {
				faults = append(faults, fmt.Errorf("%s:%d: %s: %w", file, value.Line, name.Value, err))
			}
		}
	}
	return faults
}

// didYouMean suggests the most similar key; the usual mistake is a dash instead of an underscore.
func (s *Set) didYouMean(name string) string {
	plain := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	best, distance := "", 3
	for _, k := range s.keys {
		if d := levenshtein.ComputeDistance(plain, strings.ReplaceAll(k.Name, "_", "")); d < distance {
			best, distance = k.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}
