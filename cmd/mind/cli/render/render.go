package render

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// Data writes the data of an answer as JSON or YAML, with all its fields in the order of the answer.
func Data(w io.Writer, output string, data json.RawMessage) error {
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(data)
	}
	var node yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(data, &node); err != nil {
		return err
	}
	block(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// block removes the braces and quotes that a node had as JSON.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// Value writes a value as JSON or YAML.
func Value(w io.Writer, output string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Data(w, output, text)
}

// Printable makes text from other users and programs (names, reasons, messages) safe for a terminal: one line, without
// control characters and without characters that change the direction of text.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Facts is a list of names and values; names without a value are omitted.
type Facts struct {
	t *Table
}

// NewFacts begins a list.
func NewFacts(w io.Writer) *Facts {
	return &Facts{t: &Table{w: w}}
}

// Fit limits the width of the list in columns; 0: no limit.
func (f *Facts) Fit(width int) *Facts {
	f.t.Fit(width)
	return f
}

// Add adds a line.
func (f *Facts) Add(name, value string) {
	if value != "" {
		f.t.Row(name, value)
	}
}

// Flush writes the list.
func (f *Facts) Flush() error { return f.t.Flush() }

// Ago formats how long ago something was, with about two figures.
func Ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return Duration(time.Since(*t))
}

// Time formats a time on the clock of the reader, with its zone.
func Time(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// Clock formats the time of day, with its zone.
func Clock(t time.Time) string { return t.Local().Format("15:04:05 MST") }

// Duration formats a duration with about two figures.
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// IsTerminal reports whether a reader or a writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	// Only a terminal has these settings; a check for a character device would also match /dev/null.
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Redraw shows a page in place of the one before: it moves to the corner, clears the rest of each line after writing it, and everything
// below.
func Redraw(w io.Writer, page string) error {
	_, err := io.WriteString(w, "\x1b[H"+strings.ReplaceAll(page, "\n", "\x1b[K\n")+"\x1b[J")
	return err
}

// Size formats a number of bytes for people.
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(bytes), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return strconv.FormatFloat(f, 'f', min(u, 1), 64) + " " + units[u]
}

// CheckOutput refuses unknown formats.
func CheckOutput(output string) error {
	switch output {
	case "table", "json", "yaml":
		return nil
	}
	return fmt.Errorf("-o %s: it must be table, json or yaml", output)
}

// Line writes one event: JSON as one line, YAML as one document.
func Line(w io.Writer, output, data string) error {
	if output == "json" {
		_, err := io.WriteString(w, data+"\n")
		return err
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return Data(w, output, json.RawMessage(data))
}

// Because formats a reason in brackets, to be appended to a text.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
