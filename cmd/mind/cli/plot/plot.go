// Package plot draws numbers as lines in a terminal, with braille characters.
//
// Contract: a Chart has lines, each of points from left to right; Draw returns it as text, with its axes and a legend.
//
// Guarantees: the text is no wider than the Chart's width, unless that is too small for its axes, and its number of
// rows does not depend on the points. A point's range from low to high is drawn, so an outlier is visible among any
// number of values. Numbers that cannot be drawn are left out.
package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Point is a point of a line, with the range of the values that it stands for.
type Point struct {
	X, Y, Low, High float64
}

// Line is one line of a Chart.
type Line struct {
	// Mark is drawn at the last point, and stands before the label in the legend.
	Mark   rune
	Label  string
	Points []Point
}

// Chart is a chart to draw.
type Chart struct {
	Title string
	Lines []Line
	// Width and Height are the size of the whole text without the legend.
	Width, Height int
	// Log: the scale of Y is logarithmic.
	Log bool
	// Color: lines have different colours.
	Color bool
	// XText formats a value of X; nil: as a number.
	XText func(float64) string
}

const (
	leastWidth  = 10
	leastHeight = 3
	// dotsAcross and dotsDown are the numbers of dots of a braille character.
	dotsAcross, dotsDown = 2, 4
	blank                = 0x2800
)

// bits are the bits of the dots of a braille character, by column and row.
var bits = [dotsAcross][dotsDown]uint8{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

// colors are ANSI colours that are visible on dark and light backgrounds.
var colors = []int{36, 33, 35, 32, 34, 31}

// Draw returns the chart as text.
func (c *Chart) Draw() string {
	var b strings.Builder
	b.WriteString(c.Title + "\n")
	x, y, ok := c.ranges()
	if !ok {
		b.WriteString("(nothing to draw)\n")
		return b.String()
	}
	height := max(leastHeight, c.Height-4)
	labels := make([]string, height)
	labels[0], labels[height/2], labels[height-1] = Number(c.value(y.high)), Number(c.value(y.at(0.5))), Number(c.value(y.low))
	margin := 0
	for _, label := range labels {
		margin = max(margin, utf8.RuneCountInString(label))
	}
	width := max(leastWidth, c.Width-margin-2)
	p := &paper{width: width, height: height, cells: make([]cell, width*height), x: x, y: y}
	for i, line := range c.Lines {
		c.line(p, line, i+1)
	}
	for row := range height {
		fmt.Fprintf(&b, "%*s ┤%s\n", margin, labels[row], strings.TrimRight(p.row(row, c.Color), " "))
	}
	text := c.XText
	if text == nil {
		text = Number
	}
	left, right := text(x.low), text(x.high)
	gap := width - utf8.RuneCountInString(left) - utf8.RuneCountInString(right)
	if gap < 1 {
		left, right, gap = "", "", 0 // there is no room for both, so draw neither
	}
	fmt.Fprintf(&b, "%*s └%s\n%*s  %s%s%s\n", margin, "", strings.Repeat("─", width), margin, "", left, strings.Repeat(" ", gap), right)
	for i, line := range c.Lines {
		fmt.Fprintf(&b, "%s %s\n", colored(string(line.Mark), i+1, c.Color), line.Label)
	}
	return b.String()
}

// span is a range of numbers.
type span struct{ low, high float64 }

func (s *span) take(x float64) { s.low, s.high = min(s.low, x), max(s.high, x) }

// widen widens a span if all numbers are the same.
func (s *span) widen() {
	if s.low == s.high {
		room := max(math.Abs(s.low)/10, 1e-9)
		s.low, s.high = s.low-room, s.high+room
	}
}

// share returns the position of a number in the span, from 0 to 1. It uses halves, which do not overflow.
func (s span) share(x float64) float64 { return (x/2 - s.low/2) / (s.high/2 - s.low/2) }

// at returns the number at a share.
func (s span) at(share float64) float64 { return s.low*(1-share) + s.high*share }

// ranges returns the ranges of the points that can be drawn.
func (c *Chart) ranges() (x, y span, ok bool) {
	x, y = span{math.Inf(1), math.Inf(-1)}, span{math.Inf(1), math.Inf(-1)}
	for _, line := range c.Lines {
		for _, p := range line.Points {
			if p, drawn := c.scaled(p); drawn {
				x.take(p.X)
				y.take(p.Low)
				y.take(p.High)
				ok = true
			}
		}
	}
	y.widen()
	if x.low == x.high {
		x.high++
	}
	return x, y, ok
}

// scaled returns a point on the scale of the chart.
func (c *Chart) scaled(p Point) (_ Point, drawn bool) {
	if c.Log {
		if p.Y <= 0 {
			return p, false
		}
		if p.Low <= 0 {
			p.Low = p.Y
		}
		p.Y, p.Low, p.High = math.Log10(p.Y), math.Log10(p.Low), math.Log10(p.High)
	}
	for _, f := range [...]float64{p.X, p.Y, p.Low, p.High} {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return p, false
		}
	}
	return p, true
}

// value returns the original number for a number on the scale.
func (c *Chart) value(y float64) float64 {
	if c.Log {
		return math.Pow(10, y)
	}
	return y
}

func (c *Chart) line(p *paper, line Line, pen int) {
	var before *Point
	for _, point := range line.Points {
		point, drawn := c.scaled(point)
		if !drawn {
			before = nil
			continue
		}
		col, row := p.dot(point.X, point.Y)
		_, low := p.dot(point.X, point.Low)
		_, high := p.dot(point.X, point.High)
		p.stroke(col, high, col, low, pen)
		if before != nil {
			fromCol, fromRow := p.dot(before.X, before.Y)
			p.stroke(fromCol, fromRow, col, row, pen)
		}
		before = &point
	}
	if before != nil {
		col, row := p.dot(before.X, before.Y)
		at := &p.cells[row/dotsDown*p.width+col/dotsAcross]
		at.mark, at.pen = line.Mark, pen
	}
}

// cell is one character: dots, or a mark on top of them.
type cell struct {
	dots uint8
	mark rune
	pen  int
}

// paper is the area inside the axes.
type paper struct {
	width, height int
	cells         []cell
	x, y          span
}

// dot returns the position of a point, in dots from the upper left.
func (p *paper) dot(x, y float64) (col, row int) {
	across, down := p.width*dotsAcross-1, p.height*dotsDown-1
	col = int(math.Round(p.x.share(x) * float64(across)))
	row = down - int(math.Round(p.y.share(y)*float64(down)))
	return min(max(col, 0), across), min(max(row, 0), down)
}

// stroke draws a straight line.
func (p *paper) stroke(fromCol, fromRow, toCol, toRow, pen int) {
	steps := max(abs(toCol-fromCol), abs(toRow-fromRow), 1)
	for i := range steps + 1 {
		col := fromCol + int(math.Round(float64(toCol-fromCol)*float64(i)/float64(steps)))
		row := fromRow + int(math.Round(float64(toRow-fromRow)*float64(i)/float64(steps)))
		at := &p.cells[row/dotsDown*p.width+col/dotsAcross]
		at.dots |= bits[col%dotsAcross][row%dotsDown]
		at.pen = pen
	}
}

func abs(n int) int { return max(n, -n) }

// row returns one row of characters.
func (p *paper) row(n int, color bool) string {
	var b strings.Builder
	for _, at := range p.cells[n*p.width : (n+1)*p.width] {
		switch {
		case at.mark != 0:
			b.WriteString(colored(string(at.mark), at.pen, color))
		case at.dots == 0:
			b.WriteByte(' ')
		default:
			b.WriteString(colored(string(rune(blank+int(at.dots))), at.pen, color))
		}
	}
	return b.String()
}

func colored(text string, pen int, color bool) string {
	if !color {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colors[(pen-1)%len(colors)], text)
}

// Number formats a number of an axis, in four digits.
func Number(x float64) string {
	switch size := math.Abs(x); {
	case x == 0:
		return "0"
	case size >= 1e12 || size < 1e-3:
		return strconv.FormatFloat(x, 'e', 2, 64)
	case size >= 1e9:
		return strconv.FormatFloat(x/1e9, 'g', 4, 64) + "G"
	case size >= 1e6:
		return strconv.FormatFloat(x/1e6, 'g', 4, 64) + "M"
	case size >= 1e4:
		return strconv.FormatFloat(x/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
