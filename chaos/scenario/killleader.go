// Package scenario holds attacks on a running cluster and the promises that must hold under them. Each scenario works
// through REST and signals alone, and fails when a promise is broken or when the attack was too weak to prove anything.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// KillLeader is the attack: the leader is killed Rounds times while Clients submit, each job under an idempotency key that
// is repeated until it is acknowledged.
type KillLeader struct {
	Rounds  int
	Clients int
	// Pause of a client between two submits, so that the jobs can run meanwhile.
	Pause time.Duration
	// Between the return of a killed leader and the next kill, so that there is work to be harmed.
	Between time.Duration
	// Scratch is a directory in which the jobs leave a mark of each run.
	Scratch string
	// Log is told what happens; may be nil.
	Log func(format string, args ...any)
}

// Report is what an attack found.
type Report struct {
	Rounds       int
	Acknowledged int
	// Acknowledged jobs that the cluster does not know.
	Lost []string
	// Keys that made more than one job.
	Doubled []string
	// Jobs that did not run exactly once, or did not succeed.
	Harmed []string
	// From each SIGKILL to the first accepted write that was sent after it, ascending.
	Outages []time.Duration
	// Requests that ended in an error although they could have been answered in time.
	ClientErrors int
}

// Outage returns the median and the longest outage.
func (r Report) Outage() (median, longest time.Duration) {
	if len(r.Outages) == 0 {
		return 0, 0
	}
	return r.Outages[len(r.Outages)/2], r.Outages[len(r.Outages)-1]
}

// Broken says which promise was broken; nil when all held.
func (r Report) Broken() error {
	var errs []error
	for what, list := range map[string][]string{"acknowledged and lost": r.Lost, "made twice": r.Doubled, "harmed": r.Harmed} {
		if len(list) > 0 {
			errs = append(errs, fmt.Errorf("%d jobs %s, such as %s", len(list), what, strings.Join(list[:min(3, len(list))], "; ")))
		}
	}
	return errors.Join(errs...)
}

// String is the closing line of figures.
func (r Report) String() string {
	median, longest := r.Outage()
	return fmt.Sprintf("rounds=%d jobs=%d lost=%d doubled=%d harmed=%d client_errors=%d outage_p50_ms=%d outage_max_ms=%d",
		r.Rounds, r.Acknowledged, len(r.Lost), len(r.Doubled), len(r.Harmed), r.ClientErrors, median.Milliseconds(), longest.Milliseconds())
}

// Run attacks the cluster, which must have been started with --restart.
func (k KillLeader) Run(ctx context.Context, c *procs.Cluster) (Report, error) {
	if k.Log == nil {
		k.Log = func(string, ...any) {}
	}
	marks := filepath.Join(k.Scratch, "marks")
	if err := os.MkdirAll(marks, 0o755); err != nil {
		return Report{}, err
	}
	info, err := c.Info()
	if err != nil {
		return Report{}, err
	}
	report := Report{Rounds: k.Rounds}
	load := submitters{rest: procs.NewREST(info), marks: marks, pause: k.Pause, acknowledged: map[string]string{}}
	stop := load.start(ctx, k.Clients)
	defer stop()

	for round := range k.Rounds {
		outage, err := k.killOnce(ctx, c, &load)
		if err != nil {
			return report, fmt.Errorf("round %d: %w", round+1, err)
		}
		report.Outages = append(report.Outages, outage)
		k.Log("round %d/%d: writes waited %d ms", round+1, k.Rounds, outage.Milliseconds())
	}
	stop()
	slices.Sort(report.Outages)
	report.ClientErrors = int(load.errors.Load())
	report.Acknowledged = len(load.acknowledged)
	if report.Acknowledged < k.Rounds*k.Clients {
		return report, fmt.Errorf("only %d jobs were submitted in %d rounds: the attack proves nothing", report.Acknowledged, k.Rounds)
	}
	k.Log("waiting for %d jobs to end", report.Acknowledged)
	return report, load.verify(ctx, &report)
}

// killOnce kills the leader, measures how long writes wait, and returns when the killed one is back.
func (k KillLeader) killOnce(ctx context.Context, c *procs.Cluster, load *submitters) (time.Duration, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	killed := time.Now()
	if err := c.Kill(leader); err != nil {
		return 0, err
	}
	outage, err := load.firstWriteSince(ctx, killed)
	if err != nil {
		return 0, err
	}
	if err := c.WaitBack(ctx, leader); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(k.Between):
		return outage, nil
	}
}

type submitters struct {
	rest   *procs.REST
	marks  string
	pause  time.Duration
	errors atomic.Int64

	mu           sync.Mutex
	acknowledged map[string]string // key -> job id
}

func (s *submitters) start(ctx context.Context, clients int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s.submit(ctx, fmt.Sprintf("client-%d-job-%d", c, n))
				select {
				case <-ctx.Done():
				case <-time.After(s.pause):
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
}

// submit repeats one job under one key until it is acknowledged. The attempt that is under way when the load is stopped
// is finished first: a key whose outcome nobody knows could not be checked.
func (s *submitters) submit(ctx context.Context, key string) {
	job := procs.Command(key, 1, "/bin/sh", "-c", `echo "$MIND_ATTEMPT" >> "$MARKS/$MIND_JOB_ID"`)
	job["command_config"].(map[string]any)["environment"] = map[string]string{"MARKS": s.marks}
	for {
		id, err := s.rest.Submit(context.WithoutCancel(ctx), key, job)
		if err == nil {
			s.mu.Lock()
			s.acknowledged[key] = id
			s.mu.Unlock()
			return
		}
		s.errors.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}

// firstWriteSince writes until a write sent after t is accepted, and says how long after t that was. It is a client of its
// own: one whose request is stuck says nothing about when writes work again.
func (s *submitters) firstWriteSince(ctx context.Context, t time.Time) (time.Duration, error) {
	probe, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	n := probes.Add(1)
	for i := 0; ; i++ {
		job := procs.Command(fmt.Sprintf("probe-%d-%d", n, i), 1, "/bin/true")
		_, err := s.rest.Submit(probe, fmt.Sprintf("probe-%d-%d", n, i), job)
		if err == nil {
			return time.Since(t), nil
		}
		if probe.Err() != nil {
			return 0, fmt.Errorf("no write was accepted within 30 s of the kill: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var probes atomic.Int64

func (s *submitters) verify(ctx context.Context, report *Report) error {
	names := map[string]string{}
	for key, id := range s.acknowledged {
		j, err := s.rest.WaitEnded(ctx, id)
		var refused *procs.Error
		if errors.As(err, &refused) && refused.HTTP == http.StatusNotFound {
			report.Lost = append(report.Lost, key+"="+id)
			continue
		}
		if err != nil {
			return err
		}
		mark, err := os.ReadFile(filepath.Join(s.marks, id))
		if j.State != "SUCCEEDED" || err != nil || string(mark) != "1\n" {
			report.Harmed = append(report.Harmed, fmt.Sprintf("%s is %s %s, its runs left %q (%v)", id, j.State, j.ErrorMessage, mark, err))
		}
	}
	all, err := s.rest.Jobs(ctx, "")
	if err != nil {
		return err
	}
	for _, j := range all {
		if other, ok := names[j.Name]; ok {
			report.Doubled = append(report.Doubled, fmt.Sprintf("%s is %s and %s", j.Name, other, j.ID))
		}
		names[j.Name] = j.ID
	}
	return nil
}
