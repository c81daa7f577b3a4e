package notify

import (
	"errors"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
)

const (
	// pace is how often the leader looks for notices. That is cheap while there are none.
	pace = 200 * time.Millisecond
	// inFlight bounds the requests that are under way; perTenant and perHost those of one tenant and to one host.
	inFlight  = 16
	perTenant = 8
	perHost   = 4
	// maxLooked bounds the decisions that are looked at in a round, and maxLookedEach those after a request.
	maxLooked     = 4096
	maxLookedEach = 256
	// atATime bounds the notes of one command.
	atATime = 256
	// firstPause and longestPause are those between the tries of a notice, and giveUp is how long it is tried.
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
	giveUp       = 24 * time.Hour
	// maxWhy bounds the error of a try; bytes.
	maxWhy = 256
)

// turn is the state of one term. Its loop owns it.
type turn struct {
	*Sender
	known   map[ident.Decision]*known
	results chan result
	// notes are to be proposed.
	notes []executionverbs.Note
	// next is the decision at which the next look goes on, and round counts the looks at all of them.
	next  ident.Decision
	round int
	// busy, and the two counts, are about the requests that are under way.
	busy      int
	ofTenants map[string]int
	ofHosts   map[string]int
}

// known has how far this term is with a decision that has untold notices.
type known struct {
	// number is the notice that is sent, and told the last one that is over; the view may not have that yet.
	number, told uint32
	busy         bool
	pauses       wait.Backoff
	after        time.Time
	round        int
}

type sent struct {
	decision *executions.Decision
	notice   executions.Notice
}

type result struct {
	sent
	err error
}

func newTurn(s *Sender) *turn {
	return &turn{
		Sender: s, known: map[ident.Decision]*known{}, results: make(chan result, inFlight), ofTenants: map[string]int{}, ofHosts: map[string]int{},
	}
}

// choose returns notices to send, and counts them as under way.
func (t *turn) choose(most int) (chosen []sent) {
	v, now := t.State.View(), time.Now()
	looked, all := 0, true
	for d := range v.Untold(t.next) {
		if t.busy == inFlight || looked == most {
			all = false
			break
		}
		looked++
		t.next = d.ID + 1
		k := t.known[d.ID]
		if k == nil {
			k = &known{}
			t.known[d.ID] = k
		}
		k.round = t.round
		n := d.Untold[0]
		host := hostOf(d.NotifyURL)
		if k.busy || n.Number <= k.told || n.Number == k.number && now.Before(k.after) || t.ofTenants[d.Tenant] >= perTenant || t.ofHosts[host] >= perHost {
			continue
		}
		if n.Number != k.number {
			k.number, k.pauses = n.Number, wait.Backoff{First: firstPause, Longest: longestPause}
		}
		k.busy = true
		t.count(d, 1)
		chosen = append(chosen, sent{d, n})
	}
	if all {
		t.forget()
		t.next = 0
		t.round++
	}
	if len(chosen) > 0 && t.On() {
		t.readKeys()
	}
	return chosen
}

// forget drops the decisions that have no untold notices any more.
func (t *turn) forget() {
	for id, k := range t.known {
		if k.round < t.round && !k.busy {
			delete(t.known, id)
		}
	}
}

// readKeys reads the secrets again. A file that cannot be read, perhaps because it is being replaced, leaves those that were read last.
func (t *turn) readKeys() {
	found, err := readKeys(t.SecretFile)
	if err != nil {
		t.Log.Warn("the secrets of webhooks were not read again: those that were read last sign", "error", err)
		return
	}
	t.keys = found
}

func (t *turn) count(d *executions.Decision, by int) {
	t.busy += by
	add(t.ofTenants, d.Tenant, by)
	add(t.ofHosts, hostOf(d.NotifyURL), by)
}

func add(counts map[string]int, key string, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// take takes the result of a request.
func (t *turn) take(r result) {
	d, n := r.decision, r.notice
	t.count(d, -1)
	k := t.known[d.ID]
	note := executionverbs.Note{Decision: d.ID, Number: n.Number, Over: r.err == nil}
	outcome := "sent"
	if r.err != nil {
		outcome = "failed"
		note.Err = call.Clip(r.err.Error(), maxWhy)
		if errors.As(r.err, new(gone)) || time.Since(time.Unix(0, n.At)) > giveUp {
			outcome, note.Over, note.Err = "given_up", true, "given up: "+note.Err
			t.Log.Warn("a notice of a decision was given up", "tenant", d.Tenant, "decision", d.ID.String(), "event", n.Event.String(), "error", r.err)
		}
		k.after = time.Now().Add(k.pauses.Next())
	}
	t.Tried(outcome)
	// A failure that the row shows already needs no entry.
	if !note.Over && note.Err == d.NotifyError {
		k.busy = false
		return
	}
	t.notes = append(t.notes, note)
}

// noted is called when the state has a note.
func (t *turn) noted(n executionverbs.Note) {
	k := t.known[n.Decision]
	k.busy = false
	if n.Over {
		k.told = n.Number
	}
}
