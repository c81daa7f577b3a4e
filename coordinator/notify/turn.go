package notify

import (
	"context"
	"errors"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
)

const (
	// pace is how often the leader looks for notices. That is cheap while there are none.
	pace = 200 * time.Millisecond
	// atATime bounds the notes of one command, and maxUnnoted those that wait: beyond it nothing is sent, because a successor would send
	// all of it again.
	atATime    = 256
	maxUnnoted = 64
	// firstPause and longestPause are those between the tries of a decision or job, and of an endpoint that does not answer in time.
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
	// giveUp and minTries: a notice is given up when this leader has known it for so long, and so many tries have failed.
	giveUp   = 24 * time.Hour
	minTries = 10
	// slow is how long a request that fails takes at least to count against its whole endpoint.
	slow = timeout / 2
	// maxWhy bounds the error of a try; bytes.
	maxWhy = 256
)

// turn is the state of one term. Its loop owns it.
type turn struct {
	*Sender
	known   map[key]*known
	tenants map[string]*tenant
	results chan result
	// next is the tenant with which the next look begins, and swept when the turn forgot what is over.
	next  string
	swept time.Time
	// busy counts the requests that are under way, and active the tenants that have some.
	busy, active int

	// notes are to be proposed, after a pause if that failed.
	notes      []executionverbs.Note
	noteAfter  time.Time
	notePauses wait.Backoff
	unable     bool
}

// tenant has the share of a tenant.
type tenant struct {
	// cursor is the decision or job with which the next look begins.
	cursor    key
	busy      int
	endpoints map[string]*endpoint
}

// endpoint is a host that a tenant has notified. Other tenants that notify the same host have endpoints of their own, so that one with a
// slow path there takes nothing from them.
type endpoint struct {
	busy int
	// fails counts the tries that failed.
	fails int
	// hangs: a request was not answered in time, and since then none was taken. Until after nothing is sent, then one at a time.
	hangs  bool
	pauses wait.Backoff
	after  time.Time
	used   bool
}

// known has how far this term is with a decision or job that has untold notices.
type known struct {
	owner *tenant
	at    *endpoint
	// told is the last notice that is over; the view may not have that yet.
	told uint32
	busy bool
	// pauses and after are about all notices of the decision or job, so that one that replaces another is not tried sooner.
	pauses wait.Backoff
	after  time.Time
	// since is when this term came to the notices that were not taken. fails is the endpoint's count of failures when the term came to
	// those of the event, so that a reminder that replaces one does not begin again.
	since time.Time
	event uint8
	fails int
}

type sent struct{ subject }

type result struct {
	sent
	err  error
	took time.Duration
}

func newTurn(s *Sender) *turn {
	return &turn{
		Sender: s, known: map[key]*known{}, tenants: map[string]*tenant{}, results: make(chan result, inFlight),
		notePauses: wait.Backoff{First: time.Second, Longest: 15 * time.Second}, swept: time.Now(),
	}
}

// note proposes the outcomes of requests. If that fails, a later round tries it again.
func (t *turn) note(ctx context.Context) {
	for len(t.notes) > 0 && ctx.Err() == nil && !time.Now().Before(t.noteAfter) {
		batch := t.notes[:min(len(t.notes), atATime)]
		if _, err := replica.Propose[executionverbs.NotesResult](ctx, t.State, executionverbs.NoteNotices{Notes: batch}); err != nil {
			if ctx.Err() == nil && !t.unable {
				t.Log.Warn("notices that were sent cannot be noted: this is tried until it succeeds", "notices", len(batch), "error", err)
			}
			t.unable, t.noteAfter = true, time.Now().Add(t.notePauses.Next())
			return
		}
		t.unable = false
		t.notePauses.Reset()
		for _, n := range batch {
			t.noted(n)
		}
		t.notes = t.notes[len(batch):]
	}
}

// noted is called when the state has a note.
func (t *turn) noted(n executionverbs.Note) {
	k := t.known[keyOf(n)]
	k.busy = false
	if n.Over {
		k.told = n.Number
	}
}

func (t *turn) count(k *known, by int) {
	if t.busy += by; k.owner.busy == 0 {
		t.active++
	}
	k.at.busy += by
	if k.owner.busy += by; k.owner.busy == 0 {
		t.active--
	}
}

// take takes the result of a request.
func (t *turn) take(r result) {
	d := r.subject
	k := t.known[d.key]
	t.count(k, -1)
	tried := t.Tried
	if d.job != 0 {
		tried = t.TriedOfJob
	}
	note := d.note(r.err == nil, "")
	if r.err == nil {
		k.succeed()
		tried("sent")
	} else {
		k.fail(r.took)
		note.Err = call.Clip(r.err.Error(), maxWhy)
		if errors.As(r.err, new(gone)) || time.Since(k.since) >= giveUp && k.at.fails-k.fails >= minTries {
			k.fails = k.at.fails
			note.Over, note.Err = true, "given up: "+note.Err
			tried("given_up")
			t.Log.Warn("a notice was given up", "tenant", d.tenant, "of", d.String(), "event", d.event(), "error", r.err)
		} else {
			tried("failed")
		}
	}
	// A failure that the row shows already needs no entry.
	if !note.Over && note.Err == d.shown {
		k.busy = false
		return
	}
	t.notes = append(t.notes, note)
}

func (k *known) succeed() {
	k.pauses.Reset()
	k.after, k.since = time.Time{}, time.Time{}
	k.at.pauses.Reset()
	k.at.hangs = false
}

func (k *known) fail(took time.Duration) {
	now := time.Now()
	k.after = now.Add(k.pauses.Next())
	k.at.fails++
	if took >= slow {
		k.at.hangs, k.at.after = true, now.Add(k.at.pauses.Next())
	}
}
