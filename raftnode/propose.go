package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// enqueueTime bounds how long raft may refuse to look at an entry.
const enqueueTime = 5 * time.Second

// Applied is the answer to a command: what the state machine returned for it,
// and the index of the entry that carried it.
type Applied struct {
	Result any
	Index  uint64
}

// Propose replicates a command and returns its own result once it is applied
// here. When ctx ends before the command was packed it is not sent; after that
// the outcome is unknown. The bytes must not change until Propose returns, and
// after an unknown outcome never.
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
	case <-p.answered: // both happened: an answer is worth more
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
	waiting  bool // in the queue, not yet packed; under proposer.mu
	applied  Applied
	err      error
	answered chan struct{} // closed after applied and err were set
}

func (p *proposal) answer(applied Applied, err error) {
	p.applied, p.err = applied, err
	close(p.answered)
}

// flight is an entry in flight.
type flight struct {
	batch  []*proposal
	future raft.ApplyFuture
	sent   time.Time
}

// proposer gathers commands into entries. One goroutine packs, so that entries
// are formed in order; one answers. Flights holds what is in flight; its
// capacity is what makes commands pile up, and so packs them, when the disks
// are slower than the callers.
type proposer struct {
	node *Node

	mu     sync.Mutex
	queue  []*proposal
	count  int // of queue, without what was withdrawn
	bytes  int
	closed bool

	wake    chan struct{}
	room    chan struct{}
	flights chan flight
	// given is closed when nobody will be answered any more by raft.
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
	// A command may always wait alone: the bytes bound must not refuse it for ever.
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

// withdraw takes a command out that is not packed yet.
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

// next waits for commands. Nil means that the proposer is closed.
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
		// The entry is applied; what it did to each command cannot be told.
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

// close refuses new commands and those that still wait.
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

// abandon answers what raft left unanswered when it stopped: unknown.
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
