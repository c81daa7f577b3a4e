package series

import (
	"math"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/mindcoordinator/mind/api/series"
)

// field is a number in a line of metrics.
type field struct {
	name   string
	number float64
}

const (
	// gpuPrefix is the prefix of the names of GPU series. A program cannot report such names.
	gpuPrefix = "gpu"
	// maxDepth limits the nesting of objects in a line in which numbers are found.
	maxDepth = 4
)

var (
	// notNumbers matches Python's texts for numbers that JSON does not have. They are replaced by tooLarge, a number
	// that parses as infinite.
	notNumbers = regexp.MustCompile(`-?\b(NaN|Infinity)\b`)
	tooLarge   = []byte("1e999")
	measured   = regexp.MustCompile(`^` + gpuPrefix + `[0-9]+\.`)
)

// parse appends the numbers of a line. A line that is not a JSON object has none. The name of a number in a nested
// object is its path: eval.loss in {"eval": {"loss": 1}}.
func parse(line []byte, to []field) (step int64, fields []field) {
	if len(line) == 0 || line[0] != '{' {
		return series.NoStep, to
	}
	if !gjson.ValidBytes(line) {
		if line = notNumbers.ReplaceAll(line, tooLarge); !gjson.ValidBytes(line) {
			return series.NoStep, to
		}
	}
	p := parser{step: series.NoStep, fields: to}
	p.object(gjson.ParseBytes(line), "", 1)
	return p.step, p.fields
}

type parser struct {
	step   int64
	fields []field
}

func (p *parser) object(object gjson.Result, prefix string, depth int) {
	object.ForEach(func(key, value gjson.Result) bool {
		name := prefix + key.Str
		switch {
		case value.Type == gjson.Number:
			p.number(name, value.Num)
		case value.Type == gjson.String && isNotNumber(value.Str):
			p.number(name, math.NaN())
		case value.IsObject() && depth < maxDepth && len(name) < series.MaxName:
			p.object(value, name+".", depth+1)
		}
		return true
	})
}

func (p *parser) number(name string, x float64) {
	switch name {
	case "step":
		if x >= 0 && x < 1<<53 {
			p.step = int64(x)
		}
		return
	case "total_steps", "max_steps":
		return
	}
	if !series.Nameable(name) || strings.HasPrefix(name, gpuPrefix) && measured.MatchString(name) {
		return
	}
	p.fields = append(p.fields, field{name, x})
}

// isNotNumber reports whether a string stands for a number that JSON does not have.
func isNotNumber(text string) bool {
	switch text {
	case "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf":
		return true
	}
	return false
}
