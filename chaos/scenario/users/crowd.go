package users

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario/result"
	"github.com/mindcoordinator/mind/chaos/workload"
)

// Crowd watches the log of one job through several gateways. When its stream breaks, a watcher continues at the next
// gateway after the last id that it got.
type Crowd struct {
	Job   string
	token string
	bases []string
	http  *http.Client
	// opened is the number of streams that all watchers opened.
	opened atomic.Int64
	all    []*onlooker
	// upstreams are samples of how many streams of coordinators a gateway has open (Ask).
	upstreams []int
}

// onlooker is a watcher of the crowd, with the part of the log that it got.
type onlooker struct {
	sum  *workload.Summing
	err  error
	last string
	done chan struct{}
}

// NewCrowd makes watchers of a job's log that move from one gateway to the next.
func NewCrowd(job, token string, bases []string, watchers int) *Crowd {
	c := &Crowd{Job: job, token: token, bases: bases, http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	for range watchers {
		c.all = append(c.all, &onlooker{sum: workload.NewSumming(), done: make(chan struct{})})
	}
	return c
}

// Watch reads the log as watcher i until its end.
func (c *Crowd) Watch(ctx context.Context, i int) {
	o := c.all[i]
	defer close(o.done)
	for n := i; ; n++ {
		over, err := c.once(ctx, c.bases[n%len(c.bases)], o)
		if over || ctx.Err() != nil {
			if o.err = err; err == nil {
				o.err = ctx.Err()
			}
			return
		}
		wait.For(ctx, 50*time.Millisecond)
	}
}

// Parts of the events of a log, as the gateway writes them. The printed lines need no escapes.
var (
	idStart      = []byte("id: ")
	dataStart    = []byte("data: ")
	messageStart = []byte(`"message":"`)
	messageEnd   = []byte(`","timestamp"`)
)

func (c *Crowd) once(ctx context.Context, base string, o *onlooker) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(silentFor, cancel)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/modules/scaimind/jobs/"+c.Job+"/logs", nil)
	if err != nil {
		return true, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if o.last != "" {
		req.Header.Set("Last-Event-ID", o.last)
	}
	c.opened.Add(1)
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return resp.StatusCode < 500, fmt.Errorf("HTTP %d: %s", resp.StatusCode, text)
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	var id, message []byte
	failed := false
	for n := 0; ; n++ {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if n%1000 == 0 {
			silence.Reset(silentFor)
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		switch {
		case bytes.HasPrefix(line, idStart):
			id = append(id[:0], line[len(idStart):]...)
		case bytes.HasPrefix(line, dataStart) && failed:
			if string(line) == `data: {"error":"stream ended"}` {
				return true, nil
			}
			return true, fmt.Errorf("the stream ended with %s", line)
		case bytes.HasPrefix(line, dataStart):
			_, rest, _ := bytes.Cut(line, messageStart)
			text, _, ok := bytes.Cut(rest, messageEnd)
			if !ok {
				return true, fmt.Errorf("this is no event of a log: %s", line)
			}
			message = append(message[:0], text...)
		case string(line) == "event: error":
			failed = true
		case len(line) == 0 && len(message) > 0:
			o.sum.Add(message)
			o.last, message = string(id), message[:0]
		}
	}
}

// silentFor is longer than the silence between two comments of a gateway.
const silentFor = 40 * time.Second

// Ask records how many streams of coordinators the gateways have open.
func (c *Crowd) Ask(ctx context.Context) {
	for ctx.Err() == nil {
		for _, base := range c.bases {
			if n, err := procs.Gauge(ctx, base, "mind_sse_upstreams"); err == nil {
				c.upstreams = append(c.upstreams, int(n))
			}
		}
		wait.For(ctx, time.Second)
	}
}

// Wait waits for the end of all watchers.
func (c *Crowd) Wait(ctx context.Context) error {
	for _, o := range c.all {
		select {
		case <-o.done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the watchers of job %s: %w", c.Job, ctx.Err())
		}
	}
	return nil
}

// Judge compares the lines that the watchers got with the printed ones.
func (c *Crowd) Judge(dir string, v *result.Result) error {
	want, err := workload.Printed(dir, c.Job)
	if err != nil {
		return fmt.Errorf("what job %s printed: %w", c.Job, err)
	}
	for i, o := range c.all {
		got := o.sum.Sum()
		v.Lines += want.Lines
		v.LinesLost += max(0, want.Lines-got.Lines)
		v.LinesRepeated += max(0, got.Lines-want.Lines)
		switch {
		case o.err != nil:
			v.Logs = append(v.Logs, fmt.Sprintf("watcher %d of %s, after %d lines: %v", i, c.Job, got.Lines, o.err))
		case got != want:
			v.Logs = append(v.Logs, fmt.Sprintf("watcher %d of %s was given %d lines with hash %.12s, printed were %d with %.12s", i, c.Job, got.Lines, got.Hash, want.Lines, want.Hash))
		}
	}
	note := fmt.Sprintf("%d watchers of %d lines opened %d streams", len(c.all), want.Lines, c.opened.Load())
	if n := len(c.upstreams); n > 0 {
		slices.Sort(c.upstreams)
		note += fmt.Sprintf("; a gateway had %d streams of coordinators open for them (median), %d at most", c.upstreams[n/2], c.upstreams[n-1])
	}
	v.Notes = append(v.Notes, note)
	return nil
}
