package hyperparameters

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

// spec defines the values that a hyperparameter accepts.
type spec struct {
	// Kinds are those of names.py: null, bool, int, float, object, list, str.
	Kinds []string `json:"kinds"`
	// Choices, if there are any, are the only valid texts.
	Choices []string `json:"choices"`
	// Items is the kind of the items of a list; empty: str.
	Items string `json:"items"`
	// Least is the smallest valid number, and all valid numbers are greater than Above; nil: no limit. The default is
	// always valid.
	Least, Above *float64
	Default      any
}

// outOf describes the valid numbers if a value is not among them; empty: it is.
func (s spec) outOf(value string) string {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || s.Default == any(n) {
		return ""
	}
	switch {
	case s.Least != nil && n < *s.Least:
		return fmt.Sprintf("at least %g", *s.Least)
	case s.Above != nil && n <= *s.Above:
		return fmt.Sprintf("more than %g", *s.Above)
	}
	return ""
}

// takes reports whether a value can be read as one of the kinds. It follows _value in names.py.
func (s spec) takes(name, value string) bool {
	if strings.HasSuffix(name, "_modules") && slices.Contains(s.Kinds, "list") && value != "" {
		return true // a module, a pattern, or a list of modules
	}
	if slices.Contains(s.Choices, value) {
		return true
	}
	return slices.ContainsFunc(s.Kinds, func(kind string) bool {
		if len(s.Choices) > 0 && (kind == "str" || kind == "int") {
			return false
		}
		return kind == "list" && s.isList(value) || kind != "list" && is(kind, value)
	})
}

var (
	whole  = regexp.MustCompile(`^[+-]?[0-9]+$`)
	number = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
)

func is(kind, value string) bool {
	switch kind {
	case "null":
		return slices.Contains([]string{"", "none", "null"}, strings.ToLower(value))
	case "bool":
		return slices.Contains([]string{"true", "1", "false", "0"}, strings.ToLower(value))
	case "int":
		return whole.MatchString(value)
	case "float":
		f, _ := strconv.ParseFloat(value, 64)
		return number.MatchString(value) && !math.IsInf(f, 0)
	case "object":
		var object map[string]any
		return json.Unmarshal([]byte(value), &object) == nil && object != nil
	}
	return true
}

func (s spec) isList(value string) bool {
	if strings.HasPrefix(value, "[") {
		var items []any
		return json.Unmarshal([]byte(value), &items) == nil
	}
	for item := range strings.SplitSeq(value, ",") {
		if s.Items != "" && !is(s.Items, strings.TrimSpace(item)) {
			return false
		}
	}
	return true
}

// wants describes the valid values in words.
func (s spec) wants() string {
	called := map[string]string{
		"bool": "true or false", "int": "a whole number", "float": "a number", "object": "a JSON object", "list": "a list such as a,b", "str": "a text",
	}
	var must []string
	for _, kind := range s.Kinds {
		if called[kind] != "" && (len(s.Choices) == 0 || kind != "str" && kind != "int") {
			must = append(must, called[kind])
		}
	}
	if len(s.Choices) > 0 {
		must = append(must, "one of "+strings.Join(s.Choices, ", "))
	}
	return strings.Join(must, " or ")
}

// nearest returns the candidate with the smallest edit distance; empty if most letters would change.
func nearest(name string, candidates []string) string {
	slices.Sort(candidates)
	best, fewest := "", min(4, len(name)/2+1)
	for _, candidate := range candidates {
		if d := levenshtein.ComputeDistance(plain(name), plain(candidate)); d < fewest {
			best, fewest = candidate, d
		}
	}
	return best
}

// plain returns a name in lower case, without the characters that join its words.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
}
