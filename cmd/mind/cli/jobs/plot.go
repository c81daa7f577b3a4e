package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/cmd/mind/cli/plot"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// metricSeries is a metric series of one task.
type metricSeries struct {
	Name      string `json:"name"`
	Attempt   int    `json:"attempt"`
	Rank      int    `json:"rank"`
	Unit      string `json:"unit"`
	Shared    bool   `json:"shared"`
	NotFinite int    `json:"not_finite"`
	Points    []struct {
		Time time.Time `json:"time"`
		Step *float64  `json:"step"`
		Min  float64   `json:"min"`
		Max  float64   `json:"max"`
		Mean float64   `json:"mean"`
		Last float64   `json:"last"`
	} `json:"points"`
}

type jobSeries struct {
	Series  []metricSeries `json:"series"`
	Missing []string       `json:"missing"`
}

type plotOptions struct {
	plot, log, byTime, follow bool
	rank                      int
	names                     []string
	output                    string
}

const (
	// redrawEvery is the pause between two charts with --follow.
	redrawEvery = 2 * time.Second
	// plainWidth and plainHeight are used if the size of the terminal is unknown.
	plainWidth, plainHeight = 100, 20
	// tallest limits the height of a chart: more height does not make it easier to read.
	tallest = 24
)

// plotMetrics draws the metric series of a job; with follow it redraws them until the job has ended.
func plotMetrics(ctx context.Context, c *rest.Client, w io.Writer, id string, o plotOptions) error {
	if len(o.names) == 0 {
		o.names = []string{"loss"}
	}
	follow := o.follow && render.IsTerminal(w) && o.output == "table"
	for {
		var job Job
		if follow {
			if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(id), nil, &job); err != nil {
				return err
			}
		}
		page, err := charts(ctx, c, w, id, o)
		if err != nil {
			return err
		}
		if !follow {
			_, err := io.WriteString(w, page)
			return err
		}
		if err := render.Redraw(w, page); err != nil {
			return err
		}
		if job.FinishedAt != nil {
			return nil
		}
		if wait.For(ctx, redrawEvery); ctx.Err() != nil {
			return nil
		}
	}
}

// charts returns a chart for each name.
func charts(ctx context.Context, c *rest.Client, w io.Writer, id string, o plotOptions) (string, error) {
	width, height := size(w)
	query := url.Values{"name": o.names, "points": {strconv.Itoa(min(2000, max(10, 2*width)))}}
	if o.rank >= 0 {
		query.Set("rank", strconv.Itoa(o.rank))
	}
	path := "/jobs/" + url.PathEscape(id) + "/metrics/series"
	var got jobSeries
	data, err := c.Get(ctx, path, query, &got)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if o.output != "table" {
		err := render.Data(&b, o.output, data)
		return b.String(), err
	}
	if len(got.Series) == 0 && !o.follow {
		return "", noSeries(ctx, c, path, o.names)
	}
	for _, name := range o.names {
		b.WriteString(chart(name, got.Series, o, width, height/len(o.names), render.Colored(w)))
	}
	for _, sentence := range got.Missing {
		fmt.Fprintln(&b, render.Printable(sentence))
	}
	return b.String(), nil
}

// noSeries returns an error that lists the existing series.
func noSeries(ctx context.Context, c *rest.Client, path string, names []string) error {
	var all jobSeries
	if _, err := c.Get(ctx, path, url.Values{"points": {"1"}, "rank": {"0"}}, &all); err != nil {
		return err
	}
	var there []string
	for _, s := range all.Series {
		there = append(there, render.Printable(s.Name))
	}
	if slices.Sort(there); len(there) == 0 {
		return errors.New("the job has no history of any number yet: its program writes lines to $MIND_METRICS_FILE")
	}
	there = slices.Compact(there)
	return fmt.Errorf("the job has no history of %s; name one that it has: %s", render.Printable(strings.Join(names, ", ")), strings.Join(there, ", "))
}

// marks are the marks of attempts, in order.
const marks = "123456789abcdefghijklmnopqrstuvwxyz"

func chart(name string, all []metricSeries, o plotOptions, width, height int, color bool) string {
	c := plot.Chart{Title: render.Printable(name), Width: width, Height: min(tallest, height-1), Log: o.log, Color: color}
	var mine []metricSeries
	bySteps := !o.byTime
	for _, s := range all {
		if s.Name != name || len(s.Points) == 0 {
			continue
		}
		mine = append(mine, s)
		for _, p := range s.Points {
			bySteps = bySteps && p.Step != nil
		}
	}
	if len(mine) > 0 {
		if mine[0].Unit != "" {
			c.Title += " (" + render.Printable(mine[0].Unit) + ")"
		}
		if o.log {
			c.Title += ", logarithmic"
		}
	}
	begin := time.Time{}
	for _, s := range mine {
		if at := s.Points[0].Time; begin.IsZero() || at.Before(begin) {
			begin = at
		}
	}
	c.XText = func(x float64) string { return "step " + plot.Number(x) }
	if !bySteps {
		c.XText = func(x float64) string {
			return begin.Add(time.Duration(x * float64(time.Second))).Local().Format("Jan 2 15:04:05")
		}
	}
	for _, s := range mine {
		line := plot.Line{Mark: rune(marks[(s.Attempt-1)%len(marks)])}
		for _, p := range s.Points {
			x := p.Time.Sub(begin).Seconds()
			if bySteps {
				x = *p.Step
			}
			line.Points = append(line.Points, plot.Point{X: x, Y: p.Mean, Low: p.Min, High: p.Max})
		}
		line.Label = label(s)
		c.Lines = append(c.Lines, line)
	}
	return c.Draw()
}

// label describes a series in the legend.
func label(s metricSeries) string {
	text := fmt.Sprintf("attempt %d", s.Attempt)
	if s.Rank > 0 {
		text += fmt.Sprintf(", rank %d", s.Rank)
	}
	last := s.Points[len(s.Points)-1]
	text += ": " + figure(last.Last)
	if last.Step != nil {
		text += " at step " + figure(*last.Step)
	}
	low, high := last.Min, last.Max
	for _, p := range s.Points {
		low, high = min(low, p.Min), max(high, p.Max)
	}
	text += fmt.Sprintf(", least %s, greatest %s", figure(low), figure(high))
	if s.NotFinite > 0 {
		text += fmt.Sprintf(", %d times NaN or infinite", s.NotFinite)
	}
	return text
}

// size returns the size of the terminal.
func size(w io.Writer) (width, height int) {
	if file, ok := w.(*os.File); ok {
		if at, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil && at.Col > 0 && at.Row > 0 {
			return int(at.Col), int(at.Row)
		}
	}
	return plainWidth, plainHeight
}
