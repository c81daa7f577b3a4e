package printed

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// PatternVariable names the variable of the environment in which a job sets its own pattern: a regular expression whose
// named groups are numbers, or "off".
const PatternVariable = "MIND_METRICS_PATTERN"

// maxLine is the longest line that is looked at. A report is short.
const maxLine = 4 << 10

// Patterns says which printed lines are reports.
type Patterns struct {
	own *regexp.Regexp // nil: the built-in ones
	// needles are texts of which a report has at least one. Without needles each line is tried.
	needles [][]byte
}

// Parse reads the value of PatternVariable; empty: the built-in patterns. It returns nil for "off".
func Parse(text string) (*Patterns, error) {
	switch text {
	case "":
		return &Patterns{needles: builtIn}, nil
	case "off":
		return nil, nil
	}
	own, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", PatternVariable, err)
	}
	if !slices.ContainsFunc(own.SubexpNames(), nameable) {
		return nil, fmt.Errorf("read %s: it has no named group: write (?P<loss>...) around the number named loss", PatternVariable)
	}
	p := &Patterns{own: own}
	if needle := literal(text); needle != "" {
		p.needles = [][]byte{[]byte(needle)}
	}
	return p, nil
}

// literal returns the longest text that each match of a regular expression contains.
func literal(text string) string {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return ""
	}
	longest := ""
	var walk func(*syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		switch r.Op {
		case syntax.OpLiteral:
			if s := string(r.Rune); r.Flags&syntax.FoldCase == 0 && len(s) > len(longest) {
				longest = s
			}
		case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
			for _, sub := range r.Sub {
				walk(sub)
			}
		}
	}
	walk(tree)
	return longest
}

// match returns the numbers of a printed line, without its line end.
func (p *Patterns) match(text []byte) (line, bool) {
	if p.own != nil {
		return p.matchOwn(text)
	}
	text = bytes.TrimSpace(text)
	if m := prefix.Find(text); m != nil {
		text = bytes.TrimSpace(text[len(m):])
	}
	for _, try := range [...]func(string) (line, bool){iteration, evaluation, dictionary, bar, pairs} {
		if l, ok := try(string(text)); ok && l.measured() {
			return l, true
		}
	}
	return line{}, false
}

func (p *Patterns) matchOwn(text []byte) (line, bool) {
	m := p.own.FindSubmatch(text)
	if m == nil {
		return line{}, false
	}
	l := newLine()
	for i, name := range p.own.SubexpNames() {
		switch name {
		case "":
		case "step":
			l.at(string(m[i]))
		case "total_steps":
			l.of(string(m[i]))
		default:
			l.number(name, string(m[i]))
		}
	}
	return l, len(l.names) > 0 || l.step >= 0
}

// builtIn are the needles of the built-in patterns: each known name contains one of them.
var builtIn = [][]byte{[]byte("loss"), []byte("accuracy"), []byte("lr"), []byte("learning_rate"), []byte("grad_norm"), []byte("mfu")}

var (
	// prefix matches the names that torchrun writes before the lines of its workers.
	prefix  = regexp.MustCompile(`^\[[a-z]+\d+\]:`)
	entry   = regexp.MustCompile(`['"]([^'"]+)['"]: *['"]?([-+.\w]+)['"]? *[,}]`)
	barLine = regexp.MustCompile(`^(?:Epoch (\d+))?(.*?) *\d+%\|[^|]*\| *(\d+)/(\d+) \[(.+)\]$`)
)

// iteration matches a training step of nanoGPT: iter 10: loss 3.1234, time 12.30ms, mfu 1.25%. Its mfu is negative
// before it has one.
func iteration(text string) (l line, ok bool) {
	step, rest, ok := after(text, "iter ", ": loss ")
	loss, rest, ok1 := strings.Cut(rest, ", time ")
	time, mfu, ok2 := strings.Cut(rest, "ms")
	mfu, ok3 := strings.CutPrefix(mfu, ", mfu ")
	mfu, ok4 := strings.CutSuffix(mfu, "%")
	l = newLine()
	l.at(step)
	if !ok || !ok1 || !ok2 || ok3 != ok4 || !ok3 && mfu != "" || l.step < 0 {
		return l, false
	}
	l.number("loss", loss)
	l.number("time_ms", time)
	if !strings.HasPrefix(mfu, "-") {
		l.number("mfu", mfu)
	}
	return l, true
}

// evaluation matches an evaluation of nanoGPT: step 250: train loss 1.9012, val loss 2.0034.
func evaluation(text string) (l line, ok bool) {
	step, rest, ok := after(text, "step ", ": train loss ")
	train, val, ok1 := strings.Cut(rest, ", val loss ")
	l = newLine()
	l.at(step)
	l.number("train_loss", train)
	l.number("val_loss", val)
	return l, ok && ok1 && l.step >= 0
}

// after splits a text that begins with a prefix.
func after(text, begin, at string) (before, rest string, ok bool) {
	if text, ok = strings.CutPrefix(text, begin); !ok {
		return "", "", false
	}
	return strings.Cut(text, at)
}

// dictionary matches a flat dictionary of Python, which the Trainer of transformers prints, or of JSON.
func dictionary(text string) (l line, ok bool) {
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' || strings.IndexByte(text[1:], '{') >= 0 {
		return l, false
	}
	l = newLine()
	l.row = true
	for _, m := range entry.FindAllStringSubmatch(text, maxFields) {
		switch m[1] {
		case "step", "global_step":
			l.at(m[2])
		case "total_steps", "max_steps":
			l.of(m[2])
		default:
			l.number(m[1], m[2])
		}
	}
	return l, true
}

// bar matches a progress bar of tqdm with numbers behind it, such as those of Lightning. Its step counts batches, over
// all epochs.
func bar(text string) (l line, ok bool) {
	if text == "" || text[len(text)-1] != ']' || !strings.Contains(text, "%|") {
		return l, false
	}
	m := barLine.FindStringSubmatch(text)
	if m == nil {
		return l, false
	}
	l = newLine()
	done, all := steps(m[3]), steps(m[4])
	switch named := strings.Trim(m[2], ": ") != ""; {
	case m[1] != "" && !named:
		l.step = steps(m[1])*all + done
		l.number("epoch", m[1])
	case m[1] == "" && !named:
		l.step, l.total = done, all
	}
	for one := range strings.SplitSeq(m[5], ", ") {
		if name, value, ok := strings.Cut(one, "="); ok && name != "v_num" {
			l.number(name, value)
		}
	}
	return l, true
}

// pairs matches names and numbers, one of which is the step or the epoch: step=10 loss=0.3.
func pairs(text string) (l line, ok bool) {
	if strings.IndexByte(text, '=') < 0 {
		return l, false
	}
	l = newLine()
	placed := false
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '\t' || r == ';' || r == '|' }) {
		l.pairs(one, &placed)
	}
	return l, placed
}

// pairs adds the names and numbers of a text without spaces, separated by commas. A comma within a number separates its
// thousands.
func (l *line) pairs(text string, placed *bool) {
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, ",")
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			continue
		}
		for {
			group, rest, _ := strings.Cut(text, ",")
			if grouped := value + "," + group; thousands.MatchString(grouped) {
				value, text = grouped, rest
				continue
			}
			break
		}
		switch name {
		case "step", "global_step", "iter", "iteration":
			l.at(value)
			*placed = *placed || l.step >= 0
		case "total_steps", "max_steps":
			l.of(value)
		default:
			l.number(name, value)
			*placed = *placed || name == "epoch"
		}
	}
}
