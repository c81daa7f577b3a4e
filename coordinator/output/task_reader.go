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

// archiveRetry is how often the archive is asked again about a task whose node does not answer.
const archiveRetry = 5 * time.Second

// reading is one rank's log or metrics on its way from the agent, across its restarts, and from the archive while the
// agent cannot be reached or has not kept it. Both know the same offsets, so it changes from one to the other and back
// without a gap and without a repetition.
type reading[E any] struct {
	*Service
	job     ident.Job
	attempt uint32
	src     source
	// follow: wait for what is written later. peek: read what is at hand now, and wait for nobody; what cannot be had now
	// is no loss.
	follow, peek bool

	// at is the offset behind what was read. tail is set until something was.
	at   uint64
	tail *int32

	// ask begins to read at an agent, and look in the archive, from at or from the tail on. Each call of what ask returns
	// is a receive.
	ask  func(ctx context.Context, agent v1.TaskServiceClient) (func() (answer[E], error), error)
	look func(ctx context.Context, m *tasks.Manifest) (func() (answer[E], error), error)
	// offset of an entry, which is behind it.
	offset func(E) uint64
	// take hands entries on, and begun, which may be nil, where the tail begins; false: the reader has gone.
	take  func([]E) bool
	begun func(at uint64) bool
	// what is read, in words.
	what string
}

// answer is a piece of what was asked for.
type answer[E any] struct {
	entries []E
	// begins is set when the tail that was asked for begins there.
	begins *uint64
	eof    bool
}

// loss says what a reader will not get, and why. It is an outcome, not a failure: the streams of other ranks and attempts
// go on.
type loss struct {
	message string
	at      uint64
}

func (l *loss) Error() string { return l.message }

// errGone says that the reader has gone.
var errGone = errors.New("the reader has gone")

// run reads until everything was read, and returns a *loss when not everything can be. It goes on after an agent that went
// away as long as it may come back.
func (r *reading[E]) run(ctx context.Context) error {
	pause := agentRetry
	var silentSince, looked time.Time
	for {
		before, began := r.at, time.Now()
		err := r.fromNodes(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errGone) {
			return nil
		}
		if r.at != before || time.Since(began) > endedPatience/2 {
			// A stream that held so long was to an agent that was there, though it had nothing to say.
			pause, silentSince = agentRetry, time.Time{}
		}
		switch status.Code(err) {
		case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated:
			return err
		}
		missing, over, gone := status.Code(err) == codes.NotFound, r.over(), r.gone()
		switch notYet := missing && !over && !gone && !r.src.started && r.at == 0; {
		case notYet && !r.follow:
			// Whatever it will write comes later.
			r.begin(r.at)
			return nil
		case notYet:
		default:
			if silentSince.IsZero() {
				silentSince = time.Now()
			}
			pause = min(pause*2, agentRetryMax)
			impatient := time.Since(silentSince) >= endedPatience
			giveUp := r.peek || (over || !r.follow) && (missing || gone || impatient)
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
			case archiveErr != nil && !errors.Is(archiveErr, archive.ErrNotFound) && !impatient:
				// An archive that fails may do better soon.
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

// over says that the attempt writes no more.
func (r *reading[E]) over() bool {
	j, ok := r.state.View().Job(r.job)
	return !ok || j.Terminal() || j.Attempt > r.attempt || (j.State != v1.JobState_QUEUED && !j.Live())
}

// gone says that the node is not expected to answer.
func (r *reading[E]) gone() bool {
	if r.src.node == "" {
		return false
	}
	n, ok := r.state.View().Node(r.src.node)
	return !ok || n.State == v1.NodeState_LOST
}

// lose makes the error that says what is not there. A task that never began wrote nothing. How node and archive failed, with
// addresses and paths, is for the log of this coordinator: what is returned is shown to whoever reads the job.
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
		why = where + " is not known any more"
	case missing:
		why = where + " has not kept it"
	case r.gone():
		why = where + " is lost"
	}
	switch {
	case r.archive.store == nil:
		why += ", and there is no log archive"
	case errors.Is(archiveErr, archive.ErrNotFound):
		why += ", and the log archive has nothing of it"
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
	return &loss{at: r.at, message: fmt.Sprintf("the %s of job %s, attempt %d, rank %d, is missing %s: %s", r.what, r.job, r.attempt, r.src.rank, from, why)}
}

// fromNodes reads from the node of the task or, when it is not known any more, from the first node that has it.
func (r *reading[E]) fromNodes(ctx context.Context) error {
	v := r.state.View()
	if r.src.node != "" {
		n, ok := v.Node(r.src.node)
		if !ok {
			return status.Errorf(codes.NotFound, "node %s is not known any more", r.src.node)
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
	if err := r.drain(receive); !errors.Is(err, io.EOF) {
		return err
	}
	if !r.follow {
		return nil // the task goes on; this was all that it had written
	}
	return status.Error(codes.Unavailable, "the agent closed the stream")
}

// fromArchive reads what the archive has; final says that this was all that the task left.
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

// drain receives until all was read (nil) or it cannot be.
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
			// Once something came, a new try goes on behind it.
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

// begin notes where the tail begins, when it was waited for.
func (r *reading[E]) begin(at uint64) bool {
	if r.tail == nil {
		return true
	}
	r.at, r.tail = at, nil
	return r.begun == nil || r.begun(at)
}
