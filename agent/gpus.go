package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/agent/device"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const (
	// firstLook bounds the first question to the driver, which may have to wake the GPUs up; laterLook where the agent knows
	// them from before, and has tasks to take up.
	firstLook = 30 * time.Second
	laterLook = 5 * time.Second
	// lookInterval is how often the GPUs are looked at, lookTimeout for how long.
	lookInterval = 10 * time.Second
	lookTimeout  = 10 * time.Second
	// doubtInterval is the pause before the next look while something is in doubt: the driver does not answer, a GPU is
	// missing or in use, an operator waits.
	doubtInterval = time.Second
	// missingLooks is in how many looks on end a GPU must be missing: one is not enough to end a training for.
	missingLooks = 2
	// failingLooks is how many failures of the driver on end are taken for its state.
	failingLooks = 3
)

// gpuWatch knows the GPUs of the node, those that were there once, and which are set aside.
type gpuWatch struct {
	inventory device.Inventory
	log       *slog.Logger
	// dir holds gpusFile; empty: nothing is kept.
	dir      string
	bootID   string
	spec     string
	interval time.Duration
	// onFault is called when a GPU has failed; changed has a token when the verdict on a GPU is another than before.
	onFault func()
	changed chan struct{}
	poke    chan struct{}

	// looking: one look at a time.
	looking chan struct{}

	mu sync.Mutex
	// known are the GPUs as the driver described them when it last did, with the index that leases know them by.
	known []*v1.Gpu
	// missing counts the looks in which a known GPU was not there, fault is what the driver says of those that failed.
	missing map[string]int
	faulty  map[string]string
	aside   map[string]quarantine
	// driver is why the driver tells nothing, failures how often on end.
	driver   string
	failures int
	last     []*v1.Gpu
	// samples are what the GPUs did when they were last read, and sampled counts how often that was.
	samples []*v1.GpuSample
	sampled uint64
	// shifted: the driver counts otherwise than it did when the agent began.
	shifted bool

	// doubt is why all GPUs are to be set aside as soon as the driver lists them.
	doubt string

	enabledAt uint64
	// placed: enabledAt comes from the coordinators, now or before.
	placed  bool
	written []byte
}

func newGPUWatch(inventory device.Inventory, log *slog.Logger) *gpuWatch {
	g := &gpuWatch{
		inventory: inventory, log: log, interval: lookInterval, changed: make(chan struct{}, 1), poke: make(chan struct{}, 1), looking: make(chan struct{}, 1),
		missing: make(map[string]int), faulty: make(map[string]string), aside: make(map[string]quarantine),
	}
	if source, ok := inventory.(device.XidSource); ok {
		source.OnXid(g.heard)
	}
	return g
}

// load takes up what an earlier agent knew. What it knew of a machine that was restarted, or configured otherwise, since
// then is only what was set aside.
func (g *gpuWatch) load(dir, bootID, spec string) error {
	record, known, ok, err := readGPUs(dir)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dir, g.bootID, g.spec = dir, bootID, spec
	if !ok {
		return nil
	}
	if g.doubt = record.Doubt; g.doubt != "" {
		g.log.Error("all GPUs are set aside until the node is enabled", "why", g.doubt)
	}
	g.enabledAt, g.placed = record.EnabledAt, record.EnabledAt != 0 || g.doubt == ""
	for _, q := range record.Quarantined {
		g.aside[q.UUID] = q
	}
	if record.BootID == bootID && record.Spec == spec {
		g.known = known
	}
	g.publish()
	return nil
}

// begin looks for the first time. A driver that does not answer does not keep the agent from its tasks.
func (g *gpuWatch) begin(ctx context.Context) {
	limit := firstLook
	if len(g.current()) > 0 {
		limit = laterLook
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := g.look(bounded); err != nil {
		g.log.Error("cannot look at the GPUs", "error", err)
	}
}

// look asks the driver.
func (g *gpuWatch) look(ctx context.Context) error {
	select {
	case g.looking <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: an earlier look is not over", device.ErrHung)
	}
	defer func() { <-g.looking }()
	devices, err := g.inventory.List(ctx)
	if err != nil {
		g.unanswered(err)
		return fmt.Errorf("list GPUs: %w", err)
	}
	g.mu.Lock()
	if g.driver != "" {
		g.log.Warn("the GPU driver answers again")
	}
	g.driver, g.failures = "", 0
	fault := g.compare(devices)
	g.publish()
	g.mu.Unlock()
	if fault && g.onFault != nil {
		g.onFault()
	}
	g.release(ctx)
	return nil
}

// unanswered notes that the driver tells nothing. It is no verdict on the GPUs, and no reason to end anything; but nothing
// new is put on what cannot be seen.
func (g *gpuWatch) unanswered(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	why := ""
	switch {
	case errors.Is(err, device.ErrHung) || errors.Is(err, context.DeadlineExceeded):
		why = "driver does not answer"
	case g.failures >= failingLooks:
		why = "driver fails: " + err.Error()
	}
	if why != "" && g.driver == "" {
		g.log.Error("the GPUs are set aside: the driver tells nothing", "gpus", len(g.known), "error", err)
	}
	if why != "" {
		g.driver = why
	}
	g.publish()
}

// compare takes in what the driver lists, and tells whether a GPU failed that had not before.
func (g *gpuWatch) compare(devices []device.Device) (fault bool) {
	clear(g.faulty)
	next := make([]*v1.Gpu, 0, len(devices))
	for _, d := range devices {
		gpu := gpuOf(d)
		// Leases are by index: a GPU keeps the one that it had, also when the driver renumbers because another vanished.
		if at := indexOf(g.known, d.UUID); at >= 0 && g.known[at].GetIndex() != gpu.GetIndex() {
			gpu.Index, gpu.NvlinkPeers = g.known[at].GetIndex(), g.known[at].GetNvlinkPeers()
			g.shifted = true
		}
		delete(g.missing, d.UUID)
		if d.Fault {
			g.faulty[d.UUID] = d.HealthReason
			fault = g.fail(d.UUID, d.HealthReason) || fault
		}
		next = append(next, gpu)
	}
	for _, old := range g.known {
		if indexOf(next, old.GetUuid()) >= 0 {
			continue
		}
		g.missing[old.GetUuid()]++
		if g.missing[old.GetUuid()] >= missingLooks {
			fault = g.fail(old.GetUuid(), "the driver does not list it any more") || fault
		}
		if slices.ContainsFunc(next, func(gpu *v1.Gpu) bool { return gpu.GetIndex() == old.GetIndex() }) {
			delete(g.missing, old.GetUuid())
			continue // another was put in its place
		}
		next = append(next, old)
	}
	slices.SortFunc(next, func(a, b *v1.Gpu) int { return int(a.GetIndex() - b.GetIndex()) })
	g.known = next
	if g.doubt != "" && len(devices) > 0 {
		for _, gpu := range next {
			if _, ok := g.aside[gpu.GetUuid()]; !ok {
				g.aside[gpu.GetUuid()] = g.newQuarantine(gpu.GetUuid(), causeUnknown, g.doubt)
			}
		}
		g.doubt = ""
	}
	return fault
}

// heard is called when the driver logs an error.
func (g *gpuWatch) heard(uuid string, code int) {
	xid := device.XidOf(code)
	if !xid.Critical {
		g.log.Warn("the GPU driver logged an error", "gpu", uuid, "error", xid.String())
		return
	}
	g.mu.Lock()
	fault := g.fail(uuid, xid.String())
	g.publish()
	g.mu.Unlock()
	if fault && g.onFault != nil {
		g.onFault()
	}
}

// fail sets a GPU aside that failed; false when it was already.
func (g *gpuWatch) fail(uuid, reason string) bool {
	if q, ok := g.aside[uuid]; ok && q.Cause == causeFault {
		return false
	}
	g.log.Error("a GPU failed: it is set aside until the node is enabled again", "gpu", g.name(uuid), "why", reason)
	g.aside[uuid] = g.newQuarantine(uuid, causeFault, reason)
	return true
}

func (g *gpuWatch) newQuarantine(uuid, cause, reason string) quarantine {
	return quarantine{UUID: uuid, Cause: cause, Reason: reason, At: time.Now().UnixNano(), EnabledAt: g.enabledAt, Unplaced: !g.placed}
}

// use sets a GPU aside until it is empty.
func (g *gpuWatch) use(uuid, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.aside[uuid]; !ok {
		g.log.Error("a GPU is set aside: somebody uses it", "gpu", g.name(uuid), "why", reason)
		g.aside[uuid] = g.newQuarantine(uuid, causeInUse, reason)
	}
	g.publish()
	g.hurry()
}

// enabled is told what the orders say. The first word of the coordinators is the measure for what was set aside before it.
func (g *gpuWatch) enabled(at uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.placed && at == g.enabledAt {
		return
	}
	for uuid, q := range g.aside {
		if q.Unplaced {
			q.Unplaced, q.EnabledAt = false, at
			g.aside[uuid] = q
		}
	}
	g.placed, g.enabledAt = true, max(at, g.enabledAt)
	g.publish()
	g.hurry()
}

// hurry makes the next look come soon.
func (g *gpuWatch) hurry() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// release gives back what is well again. The driver has just answered.
func (g *gpuWatch) release(ctx context.Context) {
	g.mu.Lock()
	var due []quarantine
	for _, q := range g.aside {
		if q.Cause == causeInUse || q.EnabledAt < g.enabledAt && !q.Unplaced {
			due = append(due, q)
		}
	}
	g.mu.Unlock()
	for _, q := range due {
		processes, err := g.inventory.Processes(ctx, q.UUID)
		g.mu.Lock()
		finding := ""
		switch {
		case g.missing[q.UUID] > 0 || indexOf(g.known, q.UUID) < 0:
			finding = "the driver does not list it"
		case g.faulty[q.UUID] != "":
			finding = g.faulty[q.UUID]
		case err != nil:
			// Not known: the next look tries again.
			g.mu.Unlock()
			continue
		case len(processes) > 0:
			finding = fmt.Sprintf("process %d uses it", processes[0].Pid)
		}
		switch {
		case finding == "":
			g.log.Warn("a GPU is given back", "gpu", g.name(q.UUID), "was", q.Reason)
			delete(g.aside, q.UUID)
		case q.Cause != causeInUse:
			g.log.Error("a GPU is not given back", "gpu", g.name(q.UUID), "was", q.Reason, "is", finding)
			q.EnabledAt, q.Verified = g.enabledAt, finding
			g.aside[q.UUID] = q
		}
		g.publish()
		g.mu.Unlock()
	}
}

func (g *gpuWatch) current() []*v1.Gpu {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// doubtful: the next look should come soon.
func (g *gpuWatch) doubtful() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.driver != "" || g.failures > 0 || len(g.missing) > 0 && slices.ContainsFunc(slices.Collect(maps.Values(g.missing)), func(n int) bool { return n < missingLooks }) {
		return true
	}
	for _, q := range g.aside {
		if q.Cause == causeInUse || q.EnabledAt < g.enabledAt && !q.Unplaced {
			return true
		}
	}
	return false
}

func (g *gpuWatch) run(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	g.sample(bounded)
	cancel()
	for {
		pause := g.interval
		if g.doubtful() {
			pause = min(pause, doubtInterval)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-g.poke:
			timer.Stop()
		}
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		if err := g.look(bounded); err == nil {
			g.sample(bounded)
		} else if ctx.Err() == nil {
			g.log.Debug("cannot look at the GPUs", "error", err)
		}
		cancel()
	}
}
