package gpus

import (
	"cmp"
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
	// firstLook limits the first call to the driver, which may have to wake up the GPUs; laterLook is the limit if the
	// record has the GPUs and the agent may have tasks to adopt.
	firstLook = 30 * time.Second
	laterLook = 5 * time.Second
	// lookInterval is how often the GPUs are checked, lookTimeout the time limit of a check.
	lookInterval = 10 * time.Second
	lookTimeout  = 10 * time.Second
	// doubtInterval is the pause before the next check while something is unclear: the driver does not answer, a GPU is
	// missing or in use, or an operator waits.
	doubtInterval = time.Second
	// missingLooks is how many checks in a row a GPU must be missing: one is not enough to end a training.
	missingLooks = 2
	// failingLooks is how many failures in a row count as a failed driver.
	failingLooks = 3
)

// Config configures a Monitor.
type Config struct {
	Inventory device.Inventory
	// Dir holds the record of the GPUs; empty: no record is kept.
	Dir string
	// BootID and Spec identify the boot and the configuration for which the record is valid.
	BootID, Spec string
	// Simulated GPUs are checked more often: that costs nothing.
	Simulated bool
	Log       *slog.Logger
}

// Monitor keeps track of the GPUs of the node, present and missing, and of the quarantined ones.
type Monitor struct {
	inventory device.Inventory
	log       *slog.Logger
	dir       string
	bootID    string
	spec      string
	interval  time.Duration
	onFault   func()
	changed   chan struct{}
	poke      chan struct{}

	// looking: one check at a time.
	looking chan struct{}

	// saving orders the writes of the record. It is taken before mu.
	saving  sync.Mutex
	written []byte

	mu sync.Mutex
	// known are all GPUs as the driver last described them, with their index for leases.
	known []*v1.Gpu
	// missing counts the checks in a row in which a known GPU was missing, by UUID; faulty has the driver's
	// descriptions of failed GPUs.
	missing map[string]int
	faulty  map[string]string
	aside   map[string]quarantine
	// driver is the reason why the driver does not answer, failures how often in a row it did not.
	driver   string
	failures int
	// last is the health of the GPUs that is on disk, kept the quarantines that are on disk; only these are reported.
	last []*v1.Gpu
	kept map[string]quarantine
	// samples are the last sensor values, and sampled counts the readings.
	samples []*v1.GpuSample
	sampled uint64
	// readings are all values that were read with the samples; none while the driver does not answer.
	readings []device.Reading
	// shifted: the driver's numbering has changed since the agent started.
	shifted bool

	// doubt is the reason why all GPUs must be quarantined as soon as the driver lists them; "": they need not.
	doubt string

	// clique is the result of cliqueOf at the last check.
	clique string

	enabledAt uint64
	// placed: enabledAt came from the coordinators, to this agent or an earlier one.
	placed bool
}

// New takes over the record of an earlier agent. If the machine was restarted or configured differently since then,
// only the quarantines count.
func New(cfg Config) (*Monitor, error) {
	g := &Monitor{
		inventory: cfg.Inventory, log: cfg.Log, dir: cfg.Dir, bootID: cfg.BootID, spec: cfg.Spec, interval: lookInterval, onFault: func() {},
		changed: make(chan struct{}, 1), poke: make(chan struct{}, 1), looking: make(chan struct{}, 1),
		missing: make(map[string]int), faulty: make(map[string]string), aside: make(map[string]quarantine),
	}
	if cfg.Simulated {
		g.interval = doubtInterval
	}
	if err := g.load(); err != nil {
		return nil, err
	}
	if source, ok := cfg.Inventory.(device.XidSource); ok {
		source.OnXid(g.heard)
	}
	return g, nil
}

// OnFault sets the function that is called when a GPU has failed, after the quarantine is on disk. Call it before
// Begin.
func (g *Monitor) OnFault(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onFault = f
}

func (g *Monitor) failed() {
	g.mu.Lock()
	f := g.onFault
	g.mu.Unlock()
	f()
}

// Changed has a token when the health of a GPU has changed.
func (g *Monitor) Changed() <-chan struct{} { return g.changed }

func (g *Monitor) load() error {
	if g.dir == "" {
		return nil
	}
	record, known, ok, err := readGPUs(g.dir)
	if err != nil || !ok {
		return err
	}
	if g.doubt = record.Doubt; g.doubt != "" {
		g.log.Error("all GPUs are quarantined until the node is enabled", "why", g.doubt)
	}
	g.enabledAt, g.placed = record.EnabledAt, record.EnabledAt != 0 || g.doubt == ""
	for _, q := range record.Quarantined {
		g.aside[q.UUID] = q
	}
	if record.BootID == g.bootID && record.Spec == g.spec {
		g.known = known
	}
	g.commit()
	return nil
}

// Begin makes the first check. A driver that does not answer does not keep the agent from its tasks.
func (g *Monitor) Begin(ctx context.Context) {
	limit := firstLook
	if len(g.Current()) > 0 {
		limit = laterLook
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := g.Look(bounded); err != nil {
		g.log.Error("cannot look at the GPUs", "error", err)
	}
}

// Look asks the driver, and returns when the result is on disk.
func (g *Monitor) Look(ctx context.Context) error {
	select {
	case g.looking <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: an earlier check has not ended", device.ErrHung)
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
	g.mu.Unlock()
	g.commit()
	if fault {
		g.failed()
	}
	g.release(ctx)
	return nil
}

// unanswered records that the driver does not answer. That says nothing about the GPUs, and ends no task; but no new task
// is placed on GPUs that cannot be checked.
func (g *Monitor) unanswered(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	g.noteSilence(err)
	g.commit()
}

func (g *Monitor) noteSilence(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	g.readings = nil
	why := ""
	switch {
	case errors.Is(err, device.ErrHung) || errors.Is(err, context.DeadlineExceeded):
		why = "driver does not answer"
	case g.failures >= failingLooks:
		why = "driver fails: " + err.Error()
	}
	if why != "" && g.driver == "" {
		g.log.Error("the GPUs are quarantined: the driver does not answer", "gpus", len(g.known), "error", err)
	}
	if why != "" {
		g.driver = why
	}
}

// compare compares the driver's list with the known GPUs and updates them. It reports whether a GPU has newly failed.
func (g *Monitor) compare(devices []device.Device) (fault bool) {
	clear(g.faulty)
	next := make([]*v1.Gpu, 0, len(devices))
	for _, d := range devices {
		gpu := gpuOf(d)
		// Leases are by index: a GPU keeps its index, even if the driver renumbers because another vanished.
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
	listed := slices.Clip(next) // and not what is missing, which is added to next
	for _, old := range g.known {
		if indexOf(listed, old.GetUuid()) >= 0 {
			continue
		}
		if divided(old, listed) {
			g.log.Info("a GPU was divided in another way", "gone", old.GetUuid(), "model", old.GetModel())
			g.forget(old, listed)
			continue
		}
		g.missing[old.GetUuid()]++
		if g.missing[old.GetUuid()] >= missingLooks {
			fault = g.fail(old.GetUuid(), "the driver no longer lists it") || fault
		}
		if slices.ContainsFunc(next, func(gpu *v1.Gpu) bool { return gpu.GetIndex() == old.GetIndex() }) {
			delete(g.missing, old.GetUuid())
			continue // another was put in its place
		}
		next = append(next, old)
	}
	slices.SortFunc(next, func(a, b *v1.Gpu) int { return int(a.GetIndex() - b.GetIndex()) })
	g.known = next
	g.clique = cliqueOf(devices)
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

// divided reports whether a device that is gone belonged to a GPU that the driver still lists, divided in another way. The
// driver does not take a slice away that is in use, so somebody wanted that, and nothing has failed.
func divided(old *v1.Gpu, now []*v1.Gpu) bool {
	of := cmp.Or(parent(old), old.GetUuid())
	return slices.ContainsFunc(now, func(gpu *v1.Gpu) bool { return cmp.Or(parent(gpu), gpu.GetUuid()) == of })
}

// forget forgets a device that is gone because its GPU was divided in another way. A failed GPU stays quarantined however it is divided.
func (g *Monitor) forget(old *v1.Gpu, now []*v1.Gpu) {
	q, aside := g.aside[old.GetUuid()]
	delete(g.missing, old.GetUuid())
	delete(g.aside, old.GetUuid())
	if !aside || q.Cause == causeInUse {
		return
	}
	for _, gpu := range now {
		if _, ok := g.aside[gpu.GetUuid()]; !ok && divided(old, []*v1.Gpu{gpu}) {
			q.UUID = gpu.GetUuid()
			g.aside[q.UUID] = q
		}
	}
}

// heard records an Xid error that the driver has logged.
func (g *Monitor) heard(uuid string, code int) {
	xid := device.XidOf(code)
	if !xid.Critical {
		g.log.Warn("the GPU driver logged an error", "gpu", uuid, "error", xid.String())
		return
	}
	g.mu.Lock()
	fault, whole := false, true
	for _, gpu := range g.known {
		if parent(gpu) == uuid {
			fault, whole = g.fail(gpu.GetUuid(), xid.String()) || fault, false
		}
	}
	if whole {
		fault = g.fail(uuid, xid.String())
	}
	g.mu.Unlock()
	g.commit()
	if fault {
		g.failed()
	}
}

// fail quarantines a failed GPU. It returns false if the GPU was quarantined as failed already.
func (g *Monitor) fail(uuid, reason string) bool {
	if q, ok := g.aside[uuid]; ok && q.Cause == causeFault {
		return false
	}
	g.log.Error("a GPU failed: it is quarantined until the node is enabled again", "gpu", g.name(uuid), "why", reason)
	g.aside[uuid] = g.newQuarantine(uuid, causeFault, reason)
	return true
}

func (g *Monitor) newQuarantine(uuid, cause, reason string) quarantine {
	return quarantine{UUID: uuid, Cause: cause, Reason: reason, At: time.Now().UnixNano(), EnabledAt: g.enabledAt, Unplaced: !g.placed}
}

// use quarantines a GPU until it is empty.
func (g *Monitor) use(uuid, reason string) {
	g.mu.Lock()
	if _, ok := g.aside[uuid]; !ok {
		g.log.Error("a GPU is quarantined: a foreign process uses it", "gpu", g.name(uuid), "why", reason)
		g.aside[uuid] = g.newQuarantine(uuid, causeInUse, reason)
	}
	g.mu.Unlock()
	g.commit()
	g.hurry()
}

// Enabled records when the node was last enabled, according to the orders. The first value is the baseline for earlier
// quarantines. It does not wait for the disk: Run writes it.
func (g *Monitor) Enabled(at uint64) {
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
	g.hurry()
}

// hurry makes the next check come soon.
func (g *Monitor) hurry() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// release ends the quarantine of GPUs that are healthy again. The driver has just answered.
func (g *Monitor) release(ctx context.Context) {
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
			// Unknown: the next check tries again.
			g.mu.Unlock()
			continue
		case len(processes) > 0:
			finding = fmt.Sprintf("process %d uses it", processes[0].Pid)
		}
		switch {
		case finding == "":
			g.log.Warn("a GPU is no longer quarantined", "gpu", g.name(q.UUID), "was", q.Reason)
			delete(g.aside, q.UUID)
		case q.Cause != causeInUse:
			g.log.Error("a GPU stays quarantined", "gpu", g.name(q.UUID), "was", q.Reason, "is", finding)
			q.EnabledAt, q.Verified = g.enabledAt, finding
			g.aside[q.UUID] = q
		}
		g.mu.Unlock()
		g.commit()
	}
}

// Current returns the GPUs with their health, as reported to the coordinators.
func (g *Monitor) Current() []*v1.Gpu {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// doubtful reports whether the next check should come soon.
func (g *Monitor) doubtful() bool {
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

// Run checks the GPUs until ctx ends.
func (g *Monitor) Run(ctx context.Context) {
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
			g.commit()
		}
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		if err := g.Look(bounded); err == nil {
			g.sample(bounded)
		} else if ctx.Err() == nil {
			g.log.Debug("cannot look at the GPUs", "error", err)
		}
		cancel()
	}
}
