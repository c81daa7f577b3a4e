package render

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// gap is the space between two columns.
	gap = "  "
	// leastLast is the minimum width of a last column whose text is wrapped.
	leastLast = 20
)

// Table is a table of text. Its columns are aligned over all rows, also if cells are empty.
type Table struct {
	w     io.Writer
	rows  [][]string
	width int      // most columns of the terminal; 0: no limit
	spare []string // headers of columns that are left out first, if there is a limit
}

// NewTable begins a table with its header.
func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{w: w}
	t.Row(header...)
	return t
}

// Fit limits the width of the table in columns of the terminal; 0: no limit. While the table is too wide, columns with
// the headers in spare are left out, one after the other. Then the text of the last column is wrapped. Lines that are
// still too wide are cut.
func (t *Table) Fit(width int, spare ...string) *Table {
	t.width, t.spare = width, spare
	return t
}

// Row adds a line.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Printable(c)
	}
	t.rows = append(t.rows, row)
}

// Flush writes the table with aligned columns, and begins an empty one.
func (t *Table) Flush() error {
	widths := t.widths()
	for _, name := range t.spare {
		if t.width == 0 || total(widths) <= t.width {
			break
		}
		if at := slices.Index(t.rows[0], name); at >= 0 {
			for i, row := range t.rows {
				if at < len(row) {
					t.rows[i] = slices.Delete(row, at, at+1)
				}
			}
			widths = t.widths()
		}
	}
	last := 0 // width of the last column; 0: the width of its texts
	if over := total(widths) - t.width; t.width > 0 && over > 0 && len(widths) > 0 && widths[len(widths)-1]-over >= leastLast {
		last = widths[len(widths)-1] - over
	}
	var b strings.Builder
	for _, row := range t.rows {
		t.write(&b, row, widths, last)
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

// widths returns the widths of the columns.
func (t *Table) widths() (widths []int) {
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	return widths
}

func total(widths []int) int {
	sum := len(gap) * max(0, len(widths)-1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// write adds a row, whose last cell is wrapped if its column has a width.
func (t *Table) write(b *strings.Builder, row []string, widths []int, last int) {
	var line strings.Builder
	lines := []string{""}
	for i, c := range row {
		if i == len(widths)-1 {
			if lines = []string{c}; last > 0 {
				lines = folded(c, last)
			}
			break
		}
		line.WriteString(c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)) + gap)
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(line.String()))
	for i, text := range lines {
		if i > 0 {
			line.Reset()
			line.WriteString(indent)
		}
		b.WriteString(cut(strings.TrimRight(line.String()+text, " "), t.width) + "\n")
	}
}

// folded wraps a text between words to a width.
func folded(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// cut truncates a line to a width; 0: no limit.
func cut(line string, width int) string {
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return line
}

// Width returns the number of columns of a terminal; 0: it is no terminal, or the number is unknown.
func Width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// Colored reports whether text on a stream may have colours: the stream is a terminal that supports them, and its user
// wants them.
func Colored(stream any) bool {
	return IsTerminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
