package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// printData writes the data of an answer as JSON or YAML, with all fields that the gateway gave, in its order.
func printData(w io.Writer, output string, data json.RawMessage) error {
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

// block takes from a node the braces and quotes that it had as JSON.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

func printValue(w io.Writer, output string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return printData(w, output, text)
}

// table is columns of text.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(header...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = shown(c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// shown is text that others wrote (names, reasons, messages) as it may reach a terminal: on one line, without what a
// terminal would obey, and without what turns the order of the letters around.
func shown(text string) string {
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

func (t *table) flush() error { return t.w.Flush() }

// facts is a list of names and values; those without a value are left out.
type facts struct {
	t *table
}

func newFacts(w io.Writer) *facts {
	return &facts{t: &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}}
}

func (f *facts) add(name, value string) {
	if value != "" {
		f.t.row(name, value)
	}
}

func (f *facts) flush() error { return f.t.flush() }

// ago is how long it has been, in two figures or so.
func ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return short(time.Since(*t))
}

func short(d time.Duration) string {
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	// Only a terminal has these settings; /dev/null is a character device too.
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(bytes), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return strconv.FormatFloat(f, 'f', min(u, 1), 64) + " " + units[u]
}

// checkOutput refuses a format that there is not.
func checkOutput(output string) error {
	switch output {
	case "table", "json", "yaml":
		return nil
	}
	return fmt.Errorf("-o %s: it must be table, json or yaml", output)
}

// printLine writes one event: JSON as one line, YAML as one document.
func printLine(w io.Writer, output, data string) error {
	if output == "json" {
		_, err := io.WriteString(w, data+"\n")
		return err
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return printData(w, output, json.RawMessage(data))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
