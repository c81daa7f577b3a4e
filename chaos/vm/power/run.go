package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mindcoordinator/mind/chaos/vm"
	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// Plan configures how often the power is cut, and when.
type Plan struct {
	Cuts int
	Seed uint64
	// Moments are names of moments; empty: all.
	Moments []string
	// Within limits the time of the cuts; at least one cut is made; 0: no limit.
	Within time.Duration
	// UntilBroken ends the run at the first broken promise, without waiting for the jobs.
	UntilBroken bool
}

// MomentNames returns the names of all moments, in order.
func MomentNames() (names []string) {
	for _, m := range moments {
		names = append(names, m.name)
	}
	return names
}

// ShortMoments returns the names of the moments of a short run.
func ShortMoments() []string { return slices.Clone(shortMoments) }

// mountOptions are options with which ext4 is as strict as the standard: unsynced data may be lost, or torn. By default
// ext4 syncs in some places where programs forget to, and hides their faults.
var mountOptions = []string{"noauto_da_alloc,commit=30", "noauto_da_alloc,data=writeback", "noauto_da_alloc,nodelalloc", ""}

// test is the state of one run.
type test struct {
	*Bed
	plan   Plan
	result *result.Result
	ledger *ledger.Ledger
	rng    *rand.Rand
	next   func() moment
	// kept has the numbers that the agents had in use at their last start.
	kept map[string]kept
	// token is the token of the users.
	token string
	boots []time.Duration
	ready []time.Duration
	usual time.Duration
	// told has the evidence that was already counted or reported. Only one goroutine at a time reads the evidence.
	told map[string]bool
}

// Run cuts the power as planned, and compares the state after each cut with what was acknowledged. An error means that
// there is no result.
func (b *Bed) Run(ctx context.Context, plan Plan) (*result.Result, error) {
	some := moments
	if len(plan.Moments) > 0 {
		var err error
		if some, err = momentsNamed(plan.Moments); err != nil {
			return nil, err
		}
	}
	v := result.New()
	rng := rand.New(rand.NewPCG(plan.Seed, 0))
	t := &test{
		Bed: b, plan: plan, result: v, ledger: ledger.New(v), rng: rng, next: deck(rng, some), kept: map[string]kept{}, usual: 8 * time.Second, told: map[string]bool{},
	}
	err := t.run(ctx)
	slices.Sort(t.boots)
	slices.Sort(t.ready)
	v.Count("boot_p50_ms", int(middle(t.boots).Milliseconds()))
	v.Count("ready_p50_ms", int(middle(t.ready).Milliseconds()))
	if errors.Is(err, errDied) {
		v.Break(result.Dead, "%v", err)
		err = nil
	}
	return v, err
}

func middle(sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func (t *test) run(ctx context.Context) error {
	boot := 1
	for began := time.Now(); boot <= t.plan.Cuts; boot++ {
		if boot > 1 && t.plan.Within > 0 && time.Since(began) > t.plan.Within {
			t.Log("%d of %d cuts in %s: time is up", boot-1, t.plan.Cuts, t.plan.Within)
			break
		}
		if err := t.round(ctx, boot); err != nil {
			return err
		}
		if t.plan.UntilBroken && t.result.Broken() > 0 {
			return nil
		}
	}
	return t.last(ctx, boot)
}

// round starts the machine, checks the state, lets the clients work, and cuts the power.
func (t *test) round(ctx context.Context, boot int) error {
	mo, options := t.next(), mountOptions[t.rng.IntN(len(mountOptions))]
	broken, began := t.result.Broken(), time.Now()
	m, err := t.boot(ctx, boot, options)
	if err != nil {
		return err
	}
	defer func() { _ = m.Cut() }() // the machine ends in any case
	events := newEvents()
	t.ledger.Begin(boot, func(ledger.Event) {})
	rng := rand.New(rand.NewPCG(t.plan.Seed, uint64(boot)))
	word := ""
	if mo.early {
		c, err := t.startMind(ctx, m)
		if err != nil {
			return err
		}
		mo.await(ctx, &scene{rng: rng, cluster: c, events: events, usual: t.usual})
	} else {
		c, err := t.up(ctx, m)
		if err != nil {
			return err
		}
		late, err := t.work(ctx, c, boot, mo, rng, events)
		if err != nil {
			return err
		}
		word = late
	}
	up := time.Since(began)
	if err := m.Cut(); err != nil {
		return err
	}
	t.result.Count("cuts", 1)
	began = time.Now()
	if err := t.look(ctx); err != nil {
		return err
	}
	kept := "nothing is lost"
	if n := t.result.Broken() - broken; n > 0 {
		kept = fmt.Sprintf("%d PROMISES ARE BROKEN", n)
	}
	t.Log("cut %d of %d: at %q%s, %.1f s after the start, ext4 with %s; %d acknowledged so far; disks looked at in %.1f s: %s",
		boot, t.plan.Cuts, mo.name, word, up.Seconds(), cmp.Or(options, "defaults"), t.ledger.AcknowledgedJobs(), time.Since(began).Seconds(), kept)
	return nil
}

func (t *test) boot(ctx context.Context, boot int, options string) (*vm.Machine, error) {
	began := time.Now()
	m, err := t.Boot(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start %d: %w", boot, err)
	}
	t.boots = append(t.boots, time.Since(began))
	return m, nil
}

// up starts the cluster and checks that it has everything that was acknowledged.
func (t *test) up(ctx context.Context, m *vm.Machine) (*cluster, error) {
	c, err := t.start(ctx, m)
	if err != nil {
		return nil, err
	}
	t.ready, t.usual = append(t.ready, c.readyAfter), c.readyAfter
	if t.token != "" && c.rest.Token != t.token {
		t.result.Break(result.Changed, "the token of mind dev is another one: holders of the first are locked out")
	}
	t.token = c.rest.Token
	broken := t.result.Broken()
	err = t.check(ctx, c)
	if err != nil || t.result.Broken() > broken {
		// The logs of the cluster are lost with the machine.
		name := filepath.Join(t.Dir, fmt.Sprintf("logs-%d", len(t.boots)))
		err = errors.Join(err, os.WriteFile(name, []byte(c.logs(ctx)), 0o644))
	}
	return c, err
}

// checkWithin limits the checks through REST.
const checkWithin = 3 * time.Minute

func (t *test) check(ctx context.Context, c *cluster) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	if err := t.ledger.ReadAll(ctx, c.rest, 0); err != nil {
		return err
	}
	// A submit with an acknowledged key must make no other job.
	for range 6 {
		if j := t.ledger.Pick(t.rng, func(j *ledger.Job) bool { return j.ID != "" }); j != nil {
			t.ledger.Submit(ctx, c.rest, 0, j)
		}
	}
	for _, j := range t.ledger.Known(ledger.Steady) {
		if err := t.ledger.ReadCheckpoints(ctx, c.rest, j.ID); err != nil {
			return fmt.Errorf("listing the checkpoints of %s: %w", j.ID, err)
		}
	}
	nodes, err := t.ledger.ReadNodes(ctx, c.rest)
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	for _, n := range nodes {
		k, err := readKept(func(file string) ([]byte, error) {
			return c.machine.ReadFile(ctx, fmt.Sprintf("%s/agents/%s/%s", dataDir, n.ID, file))
		})
		if err != nil {
			t.result.Break(result.Torn, "agent %s, which is in session: %v", n.ID, err)
			continue
		}
		if old := t.kept[n.ID]; k.epoch <= old.epoch {
			t.result.Break(result.WentBack, "agent %s is in session with epoch %d, and was before with %d", n.ID, k.epoch, old.epoch)
		}
		if !n.Roster {
			k.roster = t.kept[n.ID].roster // the agent has not acknowledged this roster to the leader yet
		}
		t.kept[n.ID] = k
	}
	return errors.Join(t.ledger.CheckLimit(ctx, c.rest), t.ledger.CheckTokens(ctx, c.rest))
}

// evidencePause is the time between two reads of the evidence of the jobs' processes.
const evidencePause = 2 * time.Second

// work lets the clients work until the moment, and then cuts the power. late is set if the moment did not come.
func (t *test) work(ctx context.Context, c *cluster, boot int, mo moment, rng *rand.Rand, events *events) (late string, err error) {
	l := &load{cluster: c, ledger: t.ledger, boot: boot, seed: t.plan.Seed}
	t.ledger.Begin(boot, events.tell) // reads of the checks are no events
	working, stop := context.WithCancel(ctx)
	defer l.wait.Wait()
	defer stop()
	l.start(working)
	l.wait.Go(func() {
		// The evidence of the processes is in memory, and lost with the machine.
		for working.Err() == nil {
			_ = t.evidence(working, c) // an error is ignored: the machine has ended, or it is tried again
			if text := c.died(working); text != "" && !t.told[text] {
				t.told[text] = true
				t.result.Break(result.Dead, "in start %d a part of the cluster ended by itself: %s", boot, text)
			}
			select {
			case <-working.Done():
			case <-time.After(evidencePause):
			}
		}
	})
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	mo.await(waiting, &scene{rng: rng, cluster: c, events: events, ledger: t.ledger})
	if waiting.Err() != nil {
		late = " (which did not come)"
	}
	// The power is cut while the clients wait for answers.
	return late, c.machine.Cut()
}

// look reads and checks the disks.
func (t *test) look(ctx context.Context) error {
	d, err := t.Dump(ctx)
	if err != nil {
		return err
	}
	c := dumpCheck{Dumped: d, result: t.result, before: t.kept}
	c.checkControl()
	c.checkCheckpoints(t.ledger.Listed())
	for _, name := range t.names("c") {
		if err := c.checkCoordinator(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range t.names("n") {
		if err := c.checkAgent(name); err != nil {
			return err
		}
	}
	return nil
}

// endWithin limits the time until the running jobs have ended.
const (
	endWithin   = 4 * time.Minute
	cancelAfter = 15 * time.Second
)

// last starts the machine once more, waits until all jobs have ended, and shuts it down.
func (t *test) last(ctx context.Context, boot int) error {
	m, err := t.boot(ctx, boot, "")
	if err != nil {
		return err
	}
	defer func() { _ = m.Cut() }()
	t.ledger.Begin(boot, func(ledger.Event) {})
	c, err := t.up(ctx, m)
	if err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if err := m.WriteFile(ending, filepath.Join(evidenceDir, "finish", steadyGroup), nil, 0o644); err != nil {
		return err
	}
	for j := t.ledger.TakeUnsure(); j != nil && ending.Err() == nil; j = t.ledger.TakeUnsure() {
		t.ledger.Submit(ending, c.rest, 0, j)
	}
	for began, canceled := time.Now(), false; t.ledger.Unfinished() > 0; {
		if err := t.ledger.ReadAll(ending, c.rest, 0); err != nil {
			return fmt.Errorf("waiting for %d jobs to end: %w", t.ledger.Unfinished(), err)
		}
		if !canceled && time.Since(began) > cancelAfter {
			// After many cuts, some jobs pause for minutes before they are restarted.
			canceled = true
			for _, j := range t.ledger.Alive(ledger.Stubborn, ledger.Steady) {
				t.ledger.Cancel(ending, c.rest, 0, j)
			}
		}
		select {
		case <-ending.Done():
			t.result.Break(result.WrongEnd, "%d jobs have not ended, such as %s", t.ledger.Unfinished(), t.ledger.Waiting())
			return t.finish(ctx, c)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return t.finish(ctx, c)
}

func (t *test) finish(ctx context.Context, c *cluster) error {
	if err := t.evidence(ctx, c); err != nil {
		return err
	}
	t.ledger.CheckHistory()
	off, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.machine.PowerOff(off); err != nil {
		return err
	}
	return t.look(ctx)
}
