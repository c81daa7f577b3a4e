package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// enqueueTime limits how long an entry waits until raft accepts it.
const enqueueTime = 5 * time.Second

// Applied is the answer to a command: its result from the state machine, and the index of its entry.
type Applied struct {
	Result any
	Index  uint64
}

// Propose replicates a command, and returns its result when it is applied on this replica. If ctx ends before the
// command is packed, the command is not sent; if ctx ends later, the outcome is unknown. The caller must not change the
// bytes before Propose returns, and never after an unknown outcome.
func (n *Node) Propose(ctx context.Context, command []byte) (Applied, error) {
	if n.raft.State() != raft.Leader {
		if n.stopped() {
			return Applied{}, ErrStopped
		}
		return Applied{}, n.notLeader()
	}
	p, err := n.proposer.enqueue(ctx, command)
	if err != nil {
		return Applied{}, err
	}
	select {
	case <-p.answered:
		return p.applied, p.err
	case <-ctx.Done():
	}
	if n.proposer.withdraw(p) {
		return Applied{}, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
	}
	select {
	case <-p.answered: // both happened: return the answer
		return p.applied, p.err
	default:
		return Applied{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
}

func (n *Node) stopped() bool {
	select {
	case <-n.stopping:
		return true
	default:
		return false
	}
}

// proposal is one waiting command.
type proposal struct {
	command  []byte
	waiting  bool // in the queue, not packed yet; guarded by proposer.mu
	applied  Applied
	err      error
	answered chan struct{} // closed after applied and err are set
}

func (p *proposal) answer(applied Applied, err error) {
	p.applied, p.err = applied, err
	close(p.answered)
}

// flight is an entry that was sent to raft and is not answered.
type flight struct {
	batch  []*proposal
	future raft.ApplyFuture
	sent   time.Time
}

// proposer packs commands into entries. One goroutine packs, so that entries have the order of the commands, and one
// answers. When MaxInFlight entries are in flight, because the disks are slower than the callers, further commands
// gather in the queue, and so are packed together.
type proposer struct {
	node *Node

	mu     sync.Mutex
	queue  []*proposal
	count  int // number of commands in queue that were not withdrawn
	bytes  int
	closed bool

	wake    chan struct{}
	room    chan struct{}
	flights chan flight
	// given is closed when raft will not answer any more.
	given chan struct{}
}

func newProposer(n *Node) *proposer {
	return &proposer{
		node:    n,
		wake:    make(chan struct{}, 1),
		room:    make(chan struct{}, n.cfg.MaxInFlight),
		flights: make(chan flight, n.cfg.MaxInFlight),
		given:   make(chan struct{}),
	}
}

func (q *proposer) enqueue(ctx context.Context, command []byte) (*proposal, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	cfg := &q.node.cfg
	if len(command) > cfg.MaxCommandBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrCommandTooLarge, len(command), cfg.MaxCommandBytes)
	}
	p := &proposal{command: command, waiting: true, answered: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, ErrStopped
	// A single command may always wait, because MaxBacklogBytes must not refuse it for ever.
	case q.count >= cfg.MaxBacklog, q.count > 0 && q.bytes+len(command) > cfg.MaxBacklogBytes:
		return nil, ErrBacklogFull
	}
	q.queue = append(q.queue, p)
	q.count++
	q.bytes += len(command)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return p, nil
}

// withdraw withdraws a command, and returns false if it is packed already.
func (q *proposer) withdraw(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.waiting {
		return false
	}
	p.waiting = false
	q.count--
	q.bytes -= len(p.command)
	return true
}

// take removes the commands of the next entry from the queue.
func (q *proposer) take() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*proposal
	size, looked := 0, 0
	for _, p := range q.queue {
		if p.waiting {
			full := size+len(p.command) > q.node.cfg.MaxEntryBytes || len(batch) == q.node.cfg.MaxEntryCommands
			if full && len(batch) > 0 {
				break
			}
			p.waiting = false
			batch = append(batch, p)
			size += len(p.command)
		}
		looked++
	}
	clear(q.queue[:looked])
	q.queue = q.queue[looked:]
	if len(q.queue) == 0 {
		q.queue = nil
	}
	q.count -= len(batch)
	q.bytes -= size
	return batch
}

// pack runs until the proposer is closed and its queue is empty.
func (q *proposer) pack() {
	defer close(q.flights)
	for {
		select {
		case q.room <- struct{}{}:
		case <-q.given:
			return
		}
		batch := q.next()
		if batch == nil {
			return
		}
		q.send(batch)
	}
}

// next waits for commands. It returns nil when the proposer is closed.
func (q *proposer) next() []*proposal {
	for {
		if batch := q.take(); batch != nil {
			return batch
		}
		if q.isClosed() {
			return nil
		}
		<-q.wake
	}
}

func (q *proposer) send(batch []*proposal) {
	commands := make([][]byte, len(batch))
	for i, p := range batch {
		commands[i] = p.command
	}
	n := q.node
	n.metrics.entryCommands.Observe(float64(len(batch)))
	entry := n.cfg.Pack(n.cfg.Now(), commands)
	if !n.gate.enter() {
		for _, p := range batch {
			p.answer(Applied{}, ErrStopped)
		}
		<-q.room
		return
	}
	n.pacing.sending()
	sent := time.Now()
	q.flights <- flight{batch: batch, future: n.raft.Apply(entry, enqueueTime), sent: sent}
}

// complete answers the entries in the order in which they were sent.
func (q *proposer) complete() {
	for f := range q.flights {
		q.land(f)
		q.node.gate.leave()
		<-q.room
	}
}

func (q *proposer) land(f flight) {
	answer := make(chan error, 1)
	go func() { answer <- f.future.Error() }()
	var err error
	select {
	case err = <-answer:
	case <-q.given:
		err = raft.ErrRaftShutdown
	}
	if err != nil {
		err = q.node.writeError(err)
		for _, p := range f.batch {
			p.answer(Applied{}, err)
		}
		return
	}
	q.node.metrics.commitSeconds.Observe(time.Since(f.sent).Seconds())
	index := f.future.Index()
	results, _ := f.future.Response().([]any)
	if len(results) != len(f.batch) {
		// The entry is applied, but the result of each command is unknown.
		q.node.log.Error("state machine returned the wrong number of results",
			"index", index, "commands", len(f.batch), "results", len(results))
		for _, p := range f.batch {
			p.answer(Applied{Index: index}, fmt.Errorf("%w: state machine returned %d results for %d commands", ErrUnknownOutcome, len(results), len(f.batch)))
		}
		return
	}
	for i, p := range f.batch {
		p.answer(Applied{Result: results[i], Index: index}, nil)
	}
}

// close refuses new commands, and answers those in the queue with ErrStopped.
func (q *proposer) close() {
	q.mu.Lock()
	q.closed = true
	queue := q.queue
	q.queue, q.count, q.bytes = nil, 0, 0
	refused := queue[:0]
	for _, p := range queue {
		if p.waiting {
			p.waiting = false
			refused = append(refused, p)
		}
	}
	q.mu.Unlock()
	for _, p := range refused {
		p.answer(Applied{}, ErrStopped)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// abandon answers the entries that raft did not answer before it stopped; their outcome is unknown.
func (q *proposer) abandon() { close(q.given) }

func (q *proposer) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *proposer) backlog() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}
