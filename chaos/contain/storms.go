package contain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// storm is a job that takes what it can get of a node: the node must go on, and the job must end when it is told to.
type storm struct {
	name   string
	script string
	// ends: it ends by itself, and leaves processes behind.
	ends bool
}

// storms are bounded for machines whose control groups limit nothing: the processes of the bomb, and the bytes of the hogs.
var storms = []storm{
	{name: "fork bomb", script: `/usr/bin/python3 -c '
import os, time
for i in range(9):
    os.fork()
while True:
    if os.fork() == 0:
        os._exit(0)
    os.wait()'`},
	{name: "memory hog", script: `/usr/bin/python3 -c '
held = []
for i in range(64):
    held.append(b"x" * (16 << 20))
print("storm", flush=True)
while True:
    for h in held:
        h.count(b"y")'`},
	{name: "disk filler: output, log and metrics", script: `
head -c 256M /dev/zero > $MIND_OUTPUT_DIR/filler
truncate -s 30G $MIND_METRICS_FILE $MIND_EVENTS_FILE
yes "a line of a flood of the log of this job" | head -c 64M
echo; echo storm; exec sleep 456`},
	{name: "descriptor hog", script: `/usr/bin/python3 -c '
import os, resource, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
try:
    while len(held) < 200000:
        held.append(os.pipe())
except OSError:
    pass
print("storm", flush=True)
time.sleep(1000)'`},
	{name: "sessions of its own, without environment", ends: true, script: `
for i in 1 2 3 4 5 6 7 8; do setsid env -i sh -c 'trap "" TERM; exec sleep 456' & done; echo storm; sleep 0.3`},
	{name: "forked twice", ends: true, script: `
for i in 1 2 3 4 5 6 7 8; do (setsid env -i sh -c 'trap "" TERM HUP; sleep 456 & sleep 456 & wait' &) & done; wait; echo storm`},
	{name: "control groups of its own", ends: true, script: `
at=$(sed -n 's/^0:://p' /proc/self/cgroup); for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do
  [ -d $top$at ] && mkdir -p $top$at/a/b 2>/dev/null && (echo 0 > $top$at/a/b/cgroup.procs; setsid env -i sh -c 'trap "" TERM; exec sleep 456' &)
done; setsid env -i sleep 456 & echo storm; sleep 0.3`},
}

// Weather is how a node was while a job stormed on it.
type Weather struct {
	Name string
	// Worst is the longest that the agent took to answer, and Nodes the longest that the cluster took to list its nodes.
	Worst, Nodes time.Duration
	// End is the time from the order to stop, or from the end of the command, to the end of the job; Next that from there to the start
	// of the next job on the same GPU.
	End, Next time.Duration
	// Left are the processes that were alive when the job was over.
	Left int
}

// Storm lets the storms with matching names rage, one after the other, on the only GPU of a new node.
func Storm(ctx context.Context, mind, dir, level string, chosen *regexp.Regexp) (all []Weather, err error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the directory of the cluster: %w", err)
	}
	f := &field{dir: dir, env: map[string]string{}}
	if f.cluster, err = procs.Start(ctx, mind, dir, "--coordinators", "1", "--agents", "1", "--gpus", "1xH100", "--http", "127.0.0.1:0", "--restart", "--isolation", level); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.cluster.Stop(), os.RemoveAll(dir)) }()
	if err := f.prepare(ctx, Column{Level: level}); err != nil {
		return nil, err
	}
	for _, s := range storms {
		if !chosen.MatchString(s.name) {
			continue
		}
		w, err := f.rage(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// rage runs one storm, and a job after it.
func (f *field) rage(ctx context.Context, s storm) (w Weather, err error) {
	w.Name = s.name
	before := sleepers()
	watching, enough := context.WithCancel(ctx)
	var watch sync.WaitGroup
	var agentErr, nodesErr error
	watch.Go(func() { w.Worst, agentErr = f.watchAgent(watching) })
	watch.Go(func() { w.Nodes, nodesErr = f.watchNodes(watching) })
	stop := func() { enough(); watch.Wait() }
	defer stop()
	job := procs.Command("storm", 1, "sh", "-c", s.script)
	job["scheduling_config"] = map[string]any{"max_retries": 0}
	id, err := f.attacker.Submit(ctx, "", job)
	if err != nil {
		return w, err
	}
	if err := f.raging(ctx, id, s); err != nil {
		return w, err
	}
	begun := time.Now()
	if !s.ends {
		if err := f.attacker.Do(ctx, http.MethodPost, "/jobs/"+id+"/cancel", nil, nil, nil); err != nil {
			return w, fmt.Errorf("cancel the storm: %w", err)
		}
	}
	// The next job waits for the GPU, which is free when the lease of the storm is over.
	next, err := f.victim.Submit(ctx, "", procs.Command("after", 1, "true"))
	if err != nil {
		return w, err
	}
	if _, err := f.attacker.WaitEnded(ctx, id); err != nil {
		return w, err
	}
	over := time.Now()
	w.End = over.Sub(begun)
	for pid := range sleepers() {
		if !before[pid] {
			w.Left++
		}
	}
	after, err := f.victim.WaitEnded(ctx, next)
	if err != nil {
		return w, err
	}
	w.Next = time.Since(over)
	stop()
	if after.State != "SUCCEEDED" {
		err = fmt.Errorf("the next job on the GPU is %s: %s", after.State, after.ErrorMessage)
	}
	return w, errors.Join(err, agentErr, nodesErr)
}

// raging waits until a storm says that it rages, or has ended by itself. A bomb says nothing: it gets some time.
func (f *field) raging(ctx context.Context, id string, s storm) error {
	for began := time.Now(); ; {
		j, err := f.attacker.Job(ctx, id)
		if err != nil {
			return err
		}
		if j.Ended() {
			if s.ends {
				return nil
			}
			return fmt.Errorf("it is %s before it was stopped: %s", j.State, j.ErrorMessage)
		}
		said := j.State == "RUNNING" && !strings.Contains(s.script, "storm") && time.Since(began) > 3*time.Second
		if err := f.attacker.Logs(ctx, id, "follow=false&tail=5", func(line procs.LogLine) { said = said || line.Message == "storm" }); err != nil {
			return err
		}
		if said {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the storm: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// watchAgent asks the agent all the while, and returns the longest time that an answer took.
func (f *field) watchAgent(ctx context.Context) (worst time.Duration, err error) {
	info, err := f.cluster.Info()
	if err != nil {
		return 0, err
	}
	return every(ctx, func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+info.Agents[0].HTTPAddr+"/health/ready", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New("the agent is not ready: " + strconv.Itoa(resp.StatusCode))
		}
		return err
	})
}

// watchNodes looks all the while whether the cluster hears of the node.
func (f *field) watchNodes(ctx context.Context) (worst time.Duration, err error) {
	rest := procs.NewREST(f.info)
	return every(ctx, func() error {
		nodes, err := rest.Nodes(ctx)
		for _, n := range nodes {
			if n.State != "READY" {
				err = errors.Join(err, fmt.Errorf("node %s is %s", n.ID, n.State))
			}
		}
		return err
	})
}

// every asks again and again until ctx ends, and returns the longest that it took.
func every(ctx context.Context, ask func() error) (worst time.Duration, err error) {
	for {
		began := time.Now()
		asked := ask()
		if ctx.Err() != nil {
			return worst, err
		}
		worst = max(worst, time.Since(began))
		if err == nil {
			err = asked
		}
		select {
		case <-ctx.Done():
			return worst, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Report returns the weather as a table of Markdown.
func Report(all []Weather) string {
	var b strings.Builder
	b.WriteString("| a job is | slowest answer of the agent | of `mind nodes` | its end takes | next job on the GPU after |\n|---|---|---|---|---|\n")
	for _, w := range all {
		fmt.Fprintf(&b, "| %s | %d ms | %d ms | %.1f s | %.2f s |\n", w.Name, w.Worst.Milliseconds(), w.Nodes.Milliseconds(), w.End.Seconds(), w.Next.Seconds())
	}
	return b.String()
}
