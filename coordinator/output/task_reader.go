package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/tasks"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// archiveRetry is how often the archive is tried again for a task whose node does not answer.
const archiveRetry = 5 * time.Second

// onceTimeout is how long a node that is asked once may be silent. It is shorter than a client waits for a coordinator.
const onceTimeout = time.Second

// reading reads one rank's log or metrics from the agent, across its restarts, and from the archive while the agent is
// unreachable or no longer has it. Both use the same offsets, so it switches between them without gap or repeat.
type reading[E any] struct {
	*Service
	job     ident.Job
	attempt uint32
	src     source
	// follow: wait for later output. peek: read what is available now, and wait for nothing; output that is unavailable now
	// is not reported as missing.
	follow, peek bool
	// once: a node that does not answer is asked once, and given up after onceTimeout of silence.
	once bool

	// at is the offset after the last entry that was read. tail is set until the first entry.
	at   uint64
	tail *int32

	// ask starts to read from an agent, and look from the archive, at the offset at or at the tail. The returned
	// function receives one answer per call.
	ask  func(ctx context.Context, agent v1.TaskServiceClient) (func() (answer[E], error), error)
	look func(ctx context.Context, m *tasks.Manifest) (func() (answer[E], error), error)
	// offset returns the offset after an entry.
	offset func(E) uint64
	// take passes entries on. begun, which may be nil, is called with the offset where the tail begins. Both return
	// false if the reader has gone.
	take  func([]E) bool
	begun func(at uint64) bool
	// heard, which may be nil, is called for each answer of a node.
	heard func()
	// what names the output in messages.
	what string
}

// answer is a piece of output.
type answer[E any] struct {
	entries []E
	// begins is set if the requested tail begins there.
	begins *uint64
	eof    bool
}

// loss says which output the reader does not get, and why. It is a result, not a failure: the streams of other ranks and
// attempts continue.
type loss struct {
	message string
	at      uint64
}

func (l *loss) Error() string { return l.message }

// errGone is returned when the reader has gone.
var errGone = errors.New("the reader has gone")

// run reads until everything was read, and returns a *loss if that is not possible. If the agent goes away, run
// continues as long as it may come back.
func (r *reading[E]) run(ctx context.Context) error {
	pause := agentRetry
	var silentSince, looked time.Time
	for {
		before, began := r.at, time.Now()
		err := r.tryNodes(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errGone) {
			return nil
		}
		if r.at != before || time.Since(began) > endedPatience/2 {
			// A stream that was open for that long had a working agent, although the task wrote nothing.
			pause, silentSince = agentRetry, time.Time{}
		}
		switch status.Code(err) {
		case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
			return err
		}
		missing, over, gone := status.Code(err) == codes.NotFound, r.over(), r.gone()
		switch notYet := missing && !over && !gone && !r.src.started && r.at == 0; {
		case notYet && !r.follow:
			// All output of the task comes later.
			r.begin(r.at)
			return nil
		case notYet:
		default:
			if silentSince.IsZero() {
				silentSince = time.Now()
			}
			pause = min(pause*2, agentRetryMax)
			impatient := time.Since(silentSince) >= endedPatience
			giveUp := r.peek || r.once || (over || !r.follow) && (missing || gone || impatient)
			if !giveUp && !looked.IsZero() && time.Since(looked) < archiveRetry {
				break
			}
			looked = time.Now()
			final, archiveErr := r.fromArchive(ctx)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(archiveErr, errGone), archiveErr == nil && final, r.peek:
				return nil
			case archiveErr != nil && !errors.Is(archiveErr, archive.ErrNotFound) && !impatient && !r.once:
				// A failing archive may recover soon.
			case giveUp:
				return r.lose(missing, err, archiveErr)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// over reports whether the attempt writes no more.
func (r *reading[E]) over() bool {
	j, ok := r.state.View().Find(r.job)
	return !ok || j.Terminal() || j.Attempt > r.attempt || (j.State != v1.JobState_QUEUED && !j.Live())
}

// gone reports whether the node is not expected to answer.
func (r *reading[E]) gone() bool {
	if r.src.node == "" {
		return false
	}
	n, ok := r.state.View().Node(r.src.node)
	return !ok || n.State == v1.NodeState_LOST
}

// lose returns the error about missing output; nil for a task that never began. It logs the errors of node and archive,
// which contain addresses and paths, because the result is shown to the job's users.
func (r *reading[E]) lose(missing bool, nodeErr, archiveErr error) error {
	if missing && r.at == 0 && archiveErr != nil && errors.Is(archiveErr, archive.ErrNotFound) && !r.src.started {
		return nil
	}
	where := "its node"
	if r.src.node != "" {
		where = "node " + r.src.node
	}
	why := where + " does not answer"
	switch {
	case missing && r.gone():
		why = where + " is no longer known"
	case missing:
		why = where + " no longer has it"
	case r.gone():
		why = where + " is lost"
	}
	switch {
	case r.archive.store == nil:
		why += ", and there is no log archive"
	case errors.Is(archiveErr, archive.ErrNotFound):
		why += ", and the log archive does not have it"
	case archiveErr != nil:
		why += ", and the log archive fails"
	default:
		why += ", and the log archive ends there"
	}
	r.log.Warn("what a task wrote is missing", "what", r.what, "job", r.job, "attempt", r.attempt, "rank", r.src.rank, "at", r.at,
		"node", r.src.node, "node_error", nodeErr, "archive_error", archiveErr)
	from := fmt.Sprintf("after byte %d", r.at)
	if r.at == 0 {
		from = "from the start"
	}
	is := "is"
	if r.what == "metrics" {
		is = "are"
	}
	return &loss{at: r.at, message: fmt.Sprintf("the %s of job %s, attempt %d, rank %d, %s missing %s: %s", r.what, r.job, r.attempt, r.src.rank, is, from, why)}
}

// tryNodes is fromNodes with the patience of once.
func (r *reading[E]) tryNodes(ctx context.Context) error {
	if !r.once {
		return r.fromNodes(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(onceTimeout, cancel)
	defer silence.Stop()
	r.heard = func() { silence.Reset(onceTimeout) }
	return r.fromNodes(ctx)
}

// fromNodes reads from the node of the task or, if that is no longer known, from the first node that has it.
func (r *reading[E]) fromNodes(ctx context.Context) error {
	v := r.state.View()
	if r.src.node != "" {
		n, ok := v.Node(r.src.node)
		if !ok {
			return status.Errorf(codes.NotFound, "node %s is no longer known", r.src.node)
		}
		return r.fromNode(ctx, n)
	}
	last := status.Errorf(codes.NotFound, "no node has attempt %d of job %s", r.attempt, r.job)
	for n := range v.Nodes() {
		before := r.at
		err := r.fromNode(ctx, n)
		if err == nil || r.at != before {
			r.src.node = n.ID
			return err
		}
		if status.Code(err) != codes.NotFound {
			last = err
		}
	}
	return last
}

func (r *reading[E]) fromNode(ctx context.Context, n *work.Node) error {
	conn, err := r.agents.To(n.GRPCAddr)
	if err != nil {
		return status.Errorf(codes.Unavailable, "reaching the agent of node %s: %v", n.ID, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receive, err := r.ask(ctx, v1.NewTaskServiceClient(conn))
	if err != nil {
		return err
	}
	if err := r.drain(func() (answer[E], error) {
		a, err := receive()
		if r.heard != nil {
			r.heard()
		}
		return a, err
	}); !errors.Is(err, io.EOF) {
		return err
	}
	if !r.follow {
		return nil // the task is running; this was everything that it had written
	}
	return status.Error(codes.Unavailable, "the agent closed the stream")
}

// fromArchive reads the output in the archive. final reports whether that was all output of the task.
func (r *reading[E]) fromArchive(ctx context.Context) (final bool, err error) {
	if r.archive.store == nil {
		return false, archive.ErrNotFound
	}
	m, err := tasks.Find(ctx, r.archive.store, r.job.String(), int32(r.attempt), int32(r.src.rank))
	r.archive.asked(err)
	if err != nil {
		return false, err
	}
	receive, err := r.look(ctx, m)
	if err != nil {
		return false, err
	}
	return m.Final, r.drain(receive)
}

// drain receives until everything was read (nil) or an error occurs.
func (r *reading[E]) drain(receive func() (answer[E], error)) error {
	for {
		a, err := receive()
		if err != nil {
			return err
		}
		if a.begins != nil && !r.begin(*a.begins) {
			return errGone
		}
		if n := len(a.entries); n > 0 {
			// After the first entry, a new try continues after the last one.
			r.at, r.tail = r.offset(a.entries[n-1]), nil
			if !r.take(a.entries) {
				return errGone
			}
		}
		if a.eof {
			return nil
		}
	}
}

// begin records where the tail begins, if that is not known yet.
func (r *reading[E]) begin(at uint64) bool {
	if r.tail == nil {
		return true
	}
	r.at, r.tail = at, nil
	return r.begun == nil || r.begun(at)
}
