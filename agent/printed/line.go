package printed

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxFields limits the numbers of one line.
	maxFields = 32
	// maxName limits the name of a number.
	maxName = 128
)

// line has the numbers of one printed line.
type line struct {
	step, total int64 // negative: none
	names       []string
	values      []float64
	// row: if the line has no step, it gets the number of losses so far.
	row bool
}

func newLine() line { return line{step: -1, total: -1} }

func (l *line) equal(other line) bool {
	return l.step == other.step && l.total == other.total && slices.Equal(l.names, other.names) && slices.Equal(l.values, other.values)
}

// number adds a number. The first one of a name counts. A loss, or another number of a training, that is not finite any
// more is added as NaN: it shows that the training diverged.
func (l *line) number(name, text string) {
	x, ok := parse(text)
	if !ok && known(name) && notFinite(text) {
		x, ok = math.NaN(), true
	}
	if !ok || !nameable(name) || len(l.names) == maxFields || slices.Contains(l.names, name) {
		return
	}
	l.names, l.values = append(l.names, name), append(l.values, x)
}

// thousands matches a number whose thousands are grouped by commas.
var thousands = regexp.MustCompile(`^[-+]?\d{1,3}(,\d{3})+(\.\d*)?$`)

// parse parses a finite decimal number. Its thousands may be grouped: 1,000.
func parse(text string) (x float64, ok bool) {
	if strings.IndexByte(text, ',') >= 0 && thousands.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false // of hexadecimal numbers, and of words such as nan
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && !math.IsInf(x, 0)
}

// notFinite reports whether a text stands for a number that is not finite.
func notFinite(text string) bool {
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case "nan", "inf", "infinity":
		return true
	}
	return false
}

// at sets the step, if the text is one.
func (l *line) at(text string) { l.step = steps(text) }

// of sets how many steps there are.
func (l *line) of(text string) { l.total = steps(text) }

// steps parses a number of steps. The program may print it as 10.0.
func steps(text string) int64 {
	x, ok := parse(text)
	if !ok || x < 0 || x >= 1<<53 || x != math.Trunc(x) {
		return -1
	}
	return int64(x)
}

// measured reports whether a number of the line is one that only a training has.
func (l *line) measured() bool {
	return slices.ContainsFunc(l.names, known)
}

// known reports whether a name is one of the closed set. Frameworks write train/loss and train_loss_step for it, too.
func known(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_step"), "_epoch")
	switch name {
	case "loss", "train_loss", "val_loss", "eval_loss", "accuracy", "lr", "learning_rate", "grad_norm", "mfu":
		return true
	}
	return false
}

func nameable(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '-', c == '.', c == '/', c == '@':
		default:
			return false
		}
	}
	return true
}

// json appends the line of the metrics file.
func (l *line) json(to []byte) []byte {
	to = append(to, '{')
	if l.step >= 0 {
		to = strconv.AppendInt(append(to, `"step":`...), l.step, 10)
		to = append(to, ',')
	}
	if l.total >= 0 {
		to = strconv.AppendInt(append(to, `"total_steps":`...), l.total, 10)
		to = append(to, ',')
	}
	for i, name := range l.names {
		to = append(append(append(to, '"'), name...), `":`...)
		to = strconv.AppendFloat(to, l.values[i], 'g', -1, 64)
		to = append(to, ',')
	}
	to[len(to)-1] = '}'
	return append(to, '\n')
}
