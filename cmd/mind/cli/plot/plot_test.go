package plot

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDraw(t *testing.T) {
	c := Chart{Title: "loss", Width: 26, Height: 9, Lines: []Line{
		{Mark: '1', Label: "attempt 1", Points: []Point{{X: 0, Y: 4, Low: 4, High: 4}, {X: 50, Y: 2, Low: 2, High: 2}}},
		{Mark: '2', Label: "attempt 2", Points: []Point{{X: 50, Y: 2, Low: 2, High: 2}, {X: 75, Y: 1, Low: 0, High: 3}, {X: 100, Y: 0, Low: 0, High: 0}}},
	}}
	got := c.Draw()
	t.Log("\n" + got)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	require.Len(t, lines, 1+5+2+2)
	require.Equal(t, "loss", lines[0])
	require.True(t, strings.HasPrefix(lines[1], "4 ┤⠉"), lines[1])
	require.True(t, strings.HasPrefix(lines[3], "2 ┤"), lines[3])
	require.Contains(t, lines[3], "1", "the end of the first attempt")
	require.True(t, strings.HasPrefix(lines[5], "0 ┤"), lines[5])
	require.True(t, strings.HasSuffix(lines[5], "2"), "the end of the second one")
	require.Contains(t, lines[3], "⡇", "the range of a point")
	require.Equal(t, "   0                   100", lines[7])
	require.Equal(t, []string{"1 attempt 1", "2 attempt 2"}, lines[8:])

	c.Color = true
	require.Contains(t, c.Draw(), "\x1b[33m2\x1b[0m attempt 2")
}

func TestDraw_aLogarithmicScale(t *testing.T) {
	c := Chart{Title: "loss", Width: 40, Height: 9, Log: true, Lines: []Line{{Mark: '1', Points: []Point{
		{X: 0, Y: 1000, Low: 1000, High: 1000}, {X: 1, Y: 0, Low: 0, High: 0}, {X: 2, Y: 0.1, Low: -1, High: 0.1},
	}}}}
	got := c.Draw()
	require.Contains(t, got, "1000 ┤")
	require.Contains(t, got, "10 ┤", "in the middle")
	require.Contains(t, got, "0.1 ┤")
	c.Lines[0].Points = c.Lines[0].Points[1:2]
	require.Equal(t, "loss\n(nothing to draw)\n", c.Draw())
}

// The chart has the right size for any numbers.
func TestDraw_anyNumbers(t *testing.T) {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.MaxFloat64, -math.MaxFloat64, 5e-324}))
	point := rapid.Custom(func(t *rapid.T) Point {
		y := number.Draw(t, "y")
		return Point{X: number.Draw(t, "x"), Y: y, Low: min(y, number.Draw(t, "low")), High: max(y, number.Draw(t, "high"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		c := Chart{Width: rapid.IntRange(30, 200).Draw(t, "width"), Height: rapid.IntRange(0, 50).Draw(t, "height"), Log: rapid.Bool().Draw(t, "log")}
		for range rapid.IntRange(0, 3).Draw(t, "lines") {
			c.Lines = append(c.Lines, Line{Mark: '1', Points: rapid.SliceOfN(point, 0, 30).Draw(t, "points")})
		}
		rows := strings.Split(strings.TrimSuffix(c.Draw(), "\n"), "\n")
		if rows[1] == "(nothing to draw)" {
			return
		}
		require.Len(t, rows, 1+max(leastHeight, c.Height-4)+2+len(c.Lines))
		for _, row := range rows {
			require.LessOrEqual(t, utf8.RuneCountInString(row), c.Width)
		}
	})
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.5: "0.5", 1234: "1234", 12345: "12.35k", 2e7: "20M", 8.5e10: "85G", 1e-5: "1.00e-05", -3: "-3"} {
		require.Equal(t, want, Number(x))
	}
}
