package power

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
	"github.com/mindcoordinator/mind/chaos/workload"
)

// load is the load of clients during one start of the machine.
type load struct {
	*cluster
	ledger *ledger.Ledger
	boot   int
	seed   uint64
	wait   sync.WaitGroup
}

// The amount of load.
const (
	submitters = 3
	maxBatch   = 24
	readers    = 2
	// maxUnfinished limits the jobs that run or are to run: an emulated machine cannot start many processes per second.
	maxUnfinished = 10
	// lostAfter is far longer than an agent on a slow machine is silent, so that only a cut loses a task.
	lostAfter = 600
	// weightsBytes is the size of the checkpoints of steady jobs. Each start submits a new steady job, and the oldest
	// one is canceled when there are more than maxSteady: the pauses before the restarts of a job that is lost
	// repeatedly grow.
	weightsBytes  = 96 << 10
	maxSteady     = 3
	steadyGroup   = "steady"
	checkpointing = 3 // steps between checkpoints
	stepTime      = 400 * time.Millisecond
)

// start starts the clients. They end with ctx.
func (l *load) start(ctx context.Context) {
	client := 0
	each := func(pause time.Duration, do func(rng *rand.Rand, client int)) {
		client++
		n := client
		rng := rand.New(rand.NewPCG(l.seed, uint64(l.boot)<<8|uint64(n)))
		l.wait.Go(func() {
			for ctx.Err() == nil {
				do(rng, n)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	first := sync.OnceFunc(func() {
		l.ledger.Submit(ctx, l.rest, 0, l.newMortal())
		l.ledger.Submit(ctx, l.rest, 0, l.newSteady())
		if old := l.ledger.Alive(ledger.Steady); len(old) > maxSteady {
			l.ledger.Cancel(ctx, l.rest, 0, old[0])
		}
	})
	for range submitters {
		number := 0
		each(0, func(rng *rand.Rand, n int) {
			first()
			if j := l.ledger.TakeUnsure(); j != nil {
				l.ledger.Submit(ctx, l.rest, n, j)
				return
			}
			number++
			l.ledger.Submit(ctx, l.rest, n, l.newJob(rng, n, number))
		})
	}
	batch := 0
	each(100*time.Millisecond, func(rng *rand.Rand, n int) {
		var jobs []*ledger.Job
		for range 1 + rng.IntN(maxBatch) {
			batch++
			jobs = append(jobs, l.newWaiting(rng, fmt.Sprintf("%s-%d-%d-%d", ledger.Waiting, l.boot, n, batch)))
		}
		l.ledger.SubmitBatch(ctx, l.rest, n, jobs)
	})
	for range readers {
		each(50*time.Millisecond, func(rng *rand.Rand, n int) {
			live := func(j *ledger.Job) bool { return j.ID != "" && j.Kind != ledger.Waiting && !j.Ended() }
			j := l.ledger.Pick(rng, live)
			if j == nil || rng.IntN(4) == 0 {
				j = l.ledger.Pick(rng, func(j *ledger.Job) bool { return j.ID != "" })
			}
			if j != nil {
				l.ledger.Read(ctx, l.rest, n, j)
			}
		})
	}
	each(300*time.Millisecond, func(rng *rand.Rand, n int) {
		j := l.ledger.Pick(rng, func(j *ledger.Job) bool { return j.ID != "" && j.Kind == ledger.Waiting && !j.MayCancel() })
		if j != nil {
			l.ledger.Cancel(ctx, l.rest, n, j)
		}
	})
	each(200*time.Millisecond, func(rng *rand.Rand, _ int) {
		if j := l.ledger.Pick(rng, func(j *ledger.Job) bool { return j.ID != "" && j.Kind == ledger.Steady }); j != nil {
			_ = l.ledger.ReadCheckpoints(ctx, l.rest, j.ID) // an error is ignored: it is tried again
		}
	})
	each(500*time.Millisecond, func(rng *rand.Rand, _ int) {
		if rng.IntN(3) == 0 {
			l.ledger.Tokens(ctx, l.rest)
		} else {
			l.ledger.SetLimit(ctx, l.rest)
		}
	})
	// Other jobs must be running when a GPU fails.
	client++
	rng := rand.New(rand.NewPCG(l.seed, uint64(l.boot)<<8|uint64(client)))
	l.wait.Go(func() {
		for pause := time.Duration(rng.Int64N(int64(3 * time.Second))); ctx.Err() == nil; pause = time.Second {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			l.breakGPU(ctx, rng)
		}
	})
}

// newJob makes the next job of a client.
func (l *load) newJob(rng *rand.Rand, client, number int) *ledger.Job {
	key := func(kind ledger.Kind) string { return fmt.Sprintf("%s-%d-%d-%d", kind, l.boot, client, number) }
	kind := ledger.Quick
	switch n := rng.IntN(10); {
	case n >= 4 || l.ledger.Unfinished() >= maxUnfinished:
		return l.newWaiting(rng, key(ledger.Waiting))
	case n < 2:
		kind = ledger.Stubborn
	}
	j := &ledger.Job{Key: key(kind), Kind: kind, GPUs: rng.IntN(2)}
	j.Code = rng.IntN(3) * (1 + rng.IntN(120)) // a third of them succeed
	j.Body = ledger.Body(l.boot, j.Key, j.GPUs, "sh", "-c", fmt.Sprintf("sleep 0.%d; exit %d", rng.IntN(10), j.Code))
	j.Body["scheduling_config"] = map[string]any{"restartable": kind == ledger.Stubborn, "lost_after_seconds": lostAfter}
	return j
}

// newWaiting makes a job that waits for longer than the test runs, with a body of any size, so that the log has entries
// of all sizes.
func (l *load) newWaiting(rng *rand.Rand, key string) *ledger.Job {
	j := &ledger.Job{Key: key, Kind: ledger.Waiting, Body: ledger.Body(l.boot, key, 0, "true")}
	filler := strings.Repeat(fmt.Sprintf("%016x", rng.Uint64()), 1+rng.IntN(256))
	j.Body["command_config"].(map[string]any)["environment"] = map[string]any{"FILLER": filler}
	begin := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second).Format(time.RFC3339)
	j.Body["scheduling_config"] = map[string]any{"not_before": begin, "priority": rng.IntN(11)}
	return j
}

// newMortal makes a job that the cut ends.
func (l *load) newMortal() *ledger.Job {
	j := &ledger.Job{Key: fmt.Sprintf("%s-%d", ledger.Mortal, l.boot), Kind: ledger.Mortal, GPUs: 1}
	j.Body = ledger.Body(l.boot, j.Key, j.GPUs, "sleep", "1000000")
	j.Body["scheduling_config"] = map[string]any{"restartable": false, "lost_after_seconds": lostAfter}
	return j
}

// newSteady makes a job that runs across the next cuts.
func (l *load) newSteady() *ledger.Job {
	j := &ledger.Job{Key: fmt.Sprintf("%s-%d", ledger.Steady, l.boot), Kind: ledger.Steady, Code: l.boot % 3, GPUs: 1}
	spec := workload.Spec{Dir: evidenceDir, Group: steadyGroup, Every: stepTime, CheckpointEvery: checkpointing, Weights: weightsBytes, Exit: j.Code}
	j.Body = ledger.Body(l.boot, j.Key, j.GPUs, spec.Argv("mind")...)
	j.Body["scheduling_config"] = map[string]any{"lost_after_seconds": lostAfter}
	j.Body["output_config"] = map[string]any{"output_dir": sharedDir}
	return j
}

// maxAside is the number of quarantined GPUs of a node at which it is enabled.
const maxAside = 2

// breakGPU makes a GPU fail on a node with few quarantined GPUs, and enables a node with enough of them.
func (l *load) breakGPU(ctx context.Context, rng *rand.Rand) {
	nodes, err := l.ledger.ReadNodes(ctx, l.rest)
	if err != nil || len(nodes) == 0 {
		return
	}
	n := nodes[rng.IntN(len(nodes))]
	for _, other := range nodes {
		// Wait until each broken GPU is seen quarantined, so that a cut finds at most one node with a change in
		// progress.
		if len(l.ledger.BrokenOf(other.ID, ledger.Breaking)) > 0 || len(l.ledger.BrokenOf(other.ID, ledger.Enabling)) > 0 {
			n = other
			break
		}
	}
	switch waiting, gone := l.ledger.BrokenOf(n.ID, ledger.Breaking), l.ledger.BrokenOf(n.ID, ledger.Aside); {
	case len(waiting) > 0:
		// An earlier start has not made it fail, or the agent did not notice: make it fail (again).
		l.fail(ctx, n, waiting)
	case len(l.ledger.BrokenOf(n.ID, ledger.Enabling)) > 0 || len(gone) >= maxAside:
		// The fault is removed first, so that the GPU does not fail again at once.
		if l.machine.WriteFile(ctx, faultsFile(n.ID), []byte("{}"), 0o644) == nil {
			_ = l.ledger.Enable(ctx, l.rest, n.ID) // an error is ignored: it is tried again
		}
	default:
		g := n.GPUs[rng.IntN(len(n.GPUs))]
		if g.Health == ledger.Healthy && g.JobID == "" {
			l.ledger.Breaking(n.ID, g)
			l.fail(ctx, n, []string{g.UUID})
		}
	}
}

// fail makes GPUs of a node fail, waits until they are seen quarantined, and removes the fault: the node has to
// remember it.
func (l *load) fail(ctx context.Context, n ledger.Node, uuids []string) {
	faults := map[string]string{}
	for _, g := range n.GPUs {
		if slices.Contains(uuids, g.UUID) {
			faults[strconv.Itoa(g.Index)] = ledger.Fault
		}
	}
	text, err := json.Marshal(faults)
	if err == nil {
		err = l.machine.WriteFile(ctx, faultsFile(n.ID), text, 0o644)
	}
	for err == nil && len(l.ledger.BrokenOf(n.ID, ledger.Breaking)) > 0 {
		_, err = l.ledger.ReadNodes(ctx, l.rest)
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	_ = l.machine.WriteFile(ctx, faultsFile(n.ID), []byte("{}"), 0o644) // fails only if the machine has ended
}
