package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/chaos/check"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// Ledger records the knowledge of the clients: their requests, the acknowledgements, and the answers. It outlives every
// machine. All calls of clients go through it, so that it can compare each answer with the knowledge at the time of the
// request.
type Ledger struct {
	result  *result.Result
	history check.History

	mu   sync.Mutex
	boot int
	// stopped is the newest start in which the cluster was told to stop.
	stopped int
	jobs    []*Job
	ids     map[string]*Job
	// unsure are jobs whose submit had no answer.
	unsure    map[*Job]bool
	registers registers
	// told is called for each event. It must neither wait nor use the ledger.
	told func(Event)
}

// Event is an event that a client has just learned about.
type Event string

// The events.
const (
	Acknowledged Event = "acknowledged"
	Canceled     Event = "canceled"
	Ended        Event = "ended"
	Registered   Event = "registered"
	Quarantined  Event = "quarantined"
)

// New returns an empty ledger.
func New(v *result.Result) *Ledger {
	return &Ledger{result: v, ids: map[string]*Job{}, unsure: map[*Job]bool{}, registers: newRegisters(), told: func(Event) {}}
}

// Begin records a start of the machine. boot is its number; told is called for events from here on.
func (l *Ledger) Begin(boot int, told func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boot, l.told = boot, told
}

// Stopping records that the cluster is being told to stop.
func (l *Ledger) Stopping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = l.boot
}

// callWithin limits a call of a client. Time passes slowly in the machine.
const callWithin = 20 * time.Second

// outcome returns the outcome of a call with an error: an answer, or an unknown outcome.
func outcome(err error) check.Outcome {
	var refused *procs.Error
	switch {
	case err == nil:
		return check.Done
	case errors.As(err, &refused) && refused.HTTP < 500 && refused.HTTP != http.StatusTooManyRequests:
		return check.Refused
	}
	return check.Unknown
}

// Submit submits a job with its key, for the first time or again.
func (l *Ledger) Submit(ctx context.Context, rest *procs.REST, client int, j *Job) {
	took := l.sending(client, j)
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	took(rest.Submit(ctx, j.Key, j.Body))
}

// SubmitBatch submits jobs in one call, each with its key.
func (l *Ledger) SubmitBatch(ctx context.Context, rest *procs.REST, client int, jobs []*Job) {
	var keys []string
	var bodies []map[string]any
	var took []func(string, error)
	for _, j := range jobs {
		keys, bodies, took = append(keys, j.Key), append(bodies, j.Body), append(took, l.sending(client, j))
	}
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var answer struct {
		Results []struct {
			HTTP  int    `json:"http_status"`
			JobID string `json:"job_id"`
			Error struct {
				Code    string `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"results"`
	}
	err := rest.Do(ctx, http.MethodPost, "/jobs/batch", nil, map[string]any{"jobs": bodies, "idempotency_keys": keys}, &answer)
	if err == nil && len(answer.Results) != len(jobs) {
		err = fmt.Errorf("%d results for %d jobs", len(answer.Results), len(jobs))
	}
	for i := range jobs {
		switch {
		case err != nil:
			took[i]("", err)
		case answer.Results[i].HTTP == http.StatusCreated:
			took[i](answer.Results[i].JobID, nil)
		default:
			r := answer.Results[i]
			took[i]("", &procs.Error{HTTP: r.HTTP, Code: r.Error.Code, Message: r.Error.Message})
		}
	}
}

// sending records that a job is about to be submitted; the returned function records the answer.
func (l *Ledger) sending(client int, j *Job) (took func(id string, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := j.ID
	if j.Boot == 0 {
		j.Boot = l.boot
		l.jobs = append(l.jobs, j)
	}
	end := func(check.Answer) {}
	if known == "" {
		end = l.history.Begin(client, j.Key, check.Submit)
	}
	return func(id string, err error) {
		end(check.Answer{Outcome: outcome(err)})
		l.mu.Lock()
		defer l.mu.Unlock()
		switch o := outcome(err); {
		case o == check.Refused:
			l.result.Break(result.Changed, "the submit of %s (known as %q) is refused: %v", j.Key, known, err)
		case o == check.Unknown && known == "":
			l.unsure[j] = true
		case o == check.Unknown:
		case known != "" && id != known:
			l.result.Break(result.Doubled, "%s was acknowledged as %s, and sent again it is %s", j.Key, known, id)
		case known != "":
		case l.ids[id] != nil:
			l.result.Break(result.Doubled, "%s and %s are both %s", l.ids[id].Key, j.Key, id)
		default:
			j.ID, l.ids[id] = id, j
			l.result.Count("acknowledged", 1)
			l.told(Acknowledged)
		}
	}
}

// Read reads an acknowledged job.
func (l *Ledger) Read(ctx context.Context, rest *procs.REST, client int, j *Job) {
	before := l.seen(j)
	end := l.history.Begin(client, j.Key, check.Get)
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var raw json.RawMessage
	err := rest.Get(ctx, "/jobs/"+j.ID, &raw)
	switch outcome(err) {
	case check.Unknown:
		end(check.Answer{Outcome: check.Unknown})
		return
	case check.Refused:
		end(check.Answer{Outcome: check.Refused})
		l.result.Break(result.Missing, "%s, acknowledged as %s in start %d: %v", j.Key, j.ID, j.Boot, err)
		return
	}
	_, _, v, canonical, err := read(raw)
	if err != nil {
		end(check.Answer{Outcome: check.Unknown})
		l.result.Break(result.Torn, "the answer about %s cannot be read: %v", j.ID, err)
		return
	}
	end(check.Answer{Outcome: check.Done, Phase: v.phase(), Revision: v.Revision})
	l.take(j, before, v, canonical)
}

func (l *Ledger) seen(j *Job) *view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return j.seen
}

// take compares the result of a read with the knowledge at the time of the request.
func (l *Ledger) take(j *Job, before, now *view, canonical string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Count("reads", 1)
	if text := worse(before, now); text != "" {
		l.result.Break(result.WentBack, "%s (%s) %s", j.Key, j.ID, text)
	}
	switch {
	case j.canonical == "":
		j.canonical = canonical
		if text := lacks(j.Body, canonical); text != "" {
			l.result.Break(result.Changed, "%s (%s): %s", j.Key, j.ID, text)
		}
	case j.canonical != canonical:
		l.result.Break(result.Changed, "%s (%s) was %s, and is %s", j.Key, j.ID, j.canonical, canonical)
	}
	if j.seen != nil && j.seen.Revision > now.Revision {
		return // another client has a newer answer
	}
	news := now.ended() && !j.Ended()
	j.seen = now
	if !news {
		return
	}
	if again := now.Retries.NodeLost - (l.boot - j.Boot); again > 0 {
		l.result.Count("lost_again", again) // a cut has cost it more than one attempt
	}
	if text := j.wrongEnd(now, l.boot-j.Boot, l.stopped >= j.Boot); text != "" {
		l.result.Break(result.WrongEnd, "%s (%s, first sent in start %d of %d) %s: %s", j.Key, j.ID, j.Boot, l.boot, text, now.Reason)
	}
	l.told(Ended)
}

// Cancel cancels a job.
func (l *Ledger) Cancel(ctx context.Context, rest *procs.REST, client int, j *Job) {
	l.mu.Lock()
	j.mayCancel = true
	l.mu.Unlock()
	end := l.history.Begin(client, j.Key, check.Cancel)
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	err := rest.Do(ctx, http.MethodPost, "/jobs/"+j.ID+"/cancel", nil, map[string]any{"reason": "a test"}, nil)
	end(check.Answer{Outcome: outcome(err)})
	if err != nil {
		return
	}
	l.result.Count("canceled", 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	j.canceled = true
	l.told(Canceled)
}

// ReadAll lists all jobs, and checks that the list has all jobs that were acknowledged before the request.
func (l *Ledger) ReadAll(ctx context.Context, rest *procs.REST, client int) error {
	type asked struct {
		job    *Job
		before *view
		end    func(check.Answer)
		there  bool
	}
	byID := map[string]*asked{}
	l.mu.Lock()
	for id, j := range l.ids {
		byID[id] = &asked{job: j, before: j.seen, end: l.history.Begin(client, j.Key, check.Get)}
	}
	l.mu.Unlock()
	raws, err := listJobs(ctx, rest)
	if err != nil {
		return fmt.Errorf("listing the jobs: %w", err)
	}
	names := map[string]string{}
	for _, raw := range raws {
		id, name, v, canonical, err := read(raw)
		if err != nil {
			l.result.Break(result.Torn, "a job of the list cannot be read: %v: %s", err, raw)
			continue
		}
		if other, ok := names[name]; ok && other != id {
			l.result.Break(result.Doubled, "%s is %s and %s", name, other, id)
		}
		names[name] = id
		a := byID[id]
		if a == nil || a.there {
			continue // acknowledged later, or never; or it moved to another page between two requests
		}
		a.there = true
		a.end(check.Answer{Outcome: check.Done, Phase: v.phase(), Revision: v.Revision})
		l.take(a.job, a.before, v, canonical)
	}
	for id, a := range byID {
		if !a.there {
			a.end(check.Answer{Outcome: check.Refused})
			l.result.Break(result.Missing, "%s, acknowledged as %s in start %d, is not in the list", a.job.Key, id, a.job.Boot)
		}
	}
	return nil
}

func listJobs(ctx context.Context, rest *procs.REST) ([]json.RawMessage, error) {
	var all []json.RawMessage
	token := ""
	for {
		var page struct {
			Jobs []json.RawMessage `json:"jobs"`
			Next string            `json:"next_page_token"`
		}
		if err := rest.Get(ctx, "/jobs?page_size=100&order_by=created_at&page_token="+token, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Jobs...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

// Pick returns a random job for which ok is true, or nil.
func (l *Ledger) Pick(rng *rand.Rand, ok func(*Job) bool) *Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []*Job
	for _, j := range l.jobs {
		if ok(j) {
			some = append(some, j)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rng.IntN(len(some))]
}

// TakeUnsure returns a job whose submit had no answer, so that one client submits it again; or nil.
func (l *Ledger) TakeUnsure() *Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	for j := range l.unsure {
		delete(l.unsure, j)
		return j
	}
	return nil
}

// Unfinished returns the number of jobs that run or are to run, and were not seen to end.
func (l *Ledger) Unfinished() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.Kind != Waiting && !j.Ended() {
			n++
		}
	}
	return n
}

// AcknowledgedJobs returns the number of acknowledged jobs.
func (l *Ledger) AcknowledgedJobs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

// linearizableWithin limits the search for an order of all calls.
const linearizableWithin = time.Minute

// CheckHistory checks all calls of all starts against one register per job.
func (l *Ledger) CheckHistory() {
	l.result.Count("calls", l.history.Len())
	for _, text := range l.history.Linearizable(linearizableWithin) {
		l.result.Break(result.WentBack, "%s", text)
	}
}

// Known returns the acknowledged jobs of a kind.
func (l *Ledger) Known(kind Kind) (some []*Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.ID != "" && j.Kind == kind {
			some = append(some, j)
		}
	}
	return some
}

// Alive returns the jobs of some kinds that were acknowledged and not seen to end, in the order of their submits.
func (l *Ledger) Alive(kinds ...Kind) (some []*Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.ID != "" && slices.Contains(kinds, j.Kind) && !j.Ended() {
			some = append(some, j)
		}
	}
	return some
}

// Waiting describes a job that has not ended, for people.
func (l *Ledger) Waiting() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.Kind != Waiting && !j.Ended() {
			return fmt.Sprintf("%s (%s): %v", j.Key, j.ID, j.seen)
		}
	}
	return "none"
}
