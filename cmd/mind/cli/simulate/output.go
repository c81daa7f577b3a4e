package simulate

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strconv"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/simulate"
)

// measure is a figure of runs for tables and charts.
type measure struct {
	name string
	of   func(*simulate.Measures) float64
	text func(float64) string
}

var measures = []measure{
	{"GPU allocation", func(m *simulate.Measures) float64 { return m.GPUAllocationPercent }, percent},
	{"wait, mean", func(m *simulate.Measures) float64 { return m.WaitMeanSeconds }, seconds},
	{"wait, median", func(m *simulate.Measures) float64 { return m.WaitMedianSeconds }, seconds},
	{"wait, 99 % below", func(m *simulate.Measures) float64 { return m.WaitP99Seconds }, seconds},
	{"wait, longest", func(m *simulate.Measures) float64 { return m.WaitMaxSeconds }, seconds},
	{"completion, mean", func(m *simulate.Measures) float64 { return m.CompletionMeanSeconds }, seconds},
	{"completion, median", func(m *simulate.Measures) float64 { return m.CompletionMedianSeconds }, seconds},
	{"completion, 99 % below", func(m *simulate.Measures) float64 { return m.CompletionP99Seconds }, seconds},
	{"utilisation", func(m *simulate.Measures) float64 { return 100 * m.Utilisation }, percent},
	{"fairness of users (Jain)", func(m *simulate.Measures) float64 { return m.Jain }, decimal(3)},
	{"slowdown of the worst user", func(m *simulate.Measures) float64 { return m.WorstUserSlowdown }, decimal(2)},
	{"fairness of tenants (Jain)", func(m *simulate.Measures) float64 { return m.JainTenants }, decimal(3)},
	{"slowdown of the worst tenant", func(m *simulate.Measures) float64 { return m.WorstTenantSlowdown }, decimal(2)},
	{"preemptions", func(m *simulate.Measures) float64 { return float64(m.Preemptions) }, decimal(0)},
	{"GPU-hours that they cost", func(m *simulate.Measures) float64 { return m.PreemptionCostGPUSeconds / 3600 }, decimal(0)},
	{"jobs", func(m *simulate.Measures) float64 { return float64(m.Jobs) }, decimal(0)},
	{"dropped", func(m *simulate.Measures) float64 { return float64(m.Dropped) }, decimal(0)},
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " %" }

func seconds(v float64) string { return render.Duration(time.Duration(v * float64(time.Second))) }

func decimal(places int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', places, 64) }
}

// title returns the title of a run, which includes the seed only if there are several.
func title(runs []simulate.Measures, i int) string {
	for _, r := range runs {
		if r.Seed != runs[0].Seed {
			return fmt.Sprintf("%s, seed %d", runs[i].Policy, runs[i].Seed)
		}
	}
	return runs[i].Policy
}

// printTable writes a table with a column for each run.
func printTable(w io.Writer, runs []simulate.Measures) error {
	header := []string{"MEASURE"}
	for i := range runs {
		header = append(header, title(runs, i))
	}
	t := render.NewTable(w, header...)
	for _, m := range measures {
		row, any := []string{m.name}, false
		for i := range runs {
			v := m.of(&runs[i])
			any = any || v != 0
			row = append(row, m.text(v))
		}
		if any {
			t.Row(row...)
		}
	}
	if runs[0].WorstTenant != "" {
		row := []string{"the worst tenant"}
		for i := range runs {
			row = append(row, runs[i].WorstTenant)
		}
		t.Row(row...)
	}
	return t.Flush()
}

// Sizes of the chart, in pixels.
const (
	rowHeight = 18
	labelled  = 220
	longest   = 420
)

// drawSVG draws a group of bars for each measure, with one bar for each run; the longest bar of a group is as wide as
// the chart.
func drawSVG(w io.Writer, runs []simulate.Measures) error {
	var b bytes.Buffer
	y := rowHeight
	text := func(x, y int, s string) {
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x, y, html.EscapeString(s))
	}
	for _, m := range measures {
		most := 0.0
		for i := range runs {
			most = max(most, m.of(&runs[i]))
		}
		if most == 0 {
			continue
		}
		text(8, y+13, m.name)
		y += rowHeight
		for i := range runs {
			v := m.of(&runs[i])
			width := int(v / most * longest)
			text(24, y+13, title(runs, i))
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#4269d0\"/>\n", labelled, y+2, width, rowHeight-4)
			text(labelled+width+6, y+13, m.text(v))
			y += rowHeight
		}
		y += rowHeight / 2
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n%s</svg>\n",
		labelled+longest+120, y, b.String())
	return err
}
