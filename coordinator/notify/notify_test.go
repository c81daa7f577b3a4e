package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/cores"
	"github.com/mindcoordinator/mind/fsm/coreverbs"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/level"
)

// state is a state machine of one replica.
type state struct {
	t       testing.TB
	mu      sync.Mutex
	machine *fsm.Machine
	index   uint64
	// down: proposals fail. hold is called with each; nil: nothing is.
	down bool
	hold func()
	// proposals counts all of them, and noted those that noted something.
	proposals, noted int
}

func newState(t testing.TB) *state { return &state{t: t, machine: fsm.New()} }

func (s *state) View() *fsm.View { return s.machine.View() }

func (s *state) Propose(_ context.Context, c kernel.Command) (any, error) {
	if s.hold != nil {
		s.hold()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposals++
	if s.down {
		return nil, errors.New("no quorum")
	}
	if _, ok := c.(executionverbs.NoteNotices); ok {
		s.noted++
	}
	return s.apply(c), nil
}

// counts returns how many proposals there were, and how many of them noted something.
func (s *state) counts() (proposals, noted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proposals, s.noted
}

// tally counts the outcomes of tries.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) add(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[outcome]++
}

func (c *tally) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (s *state) do(c kernel.Command) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(c)
}

func (s *state) apply(c kernel.Command) any {
	data, err := kernel.Encode(level.Newest, c)
	require.NoError(s.t, err)
	s.index++
	return s.machine.Apply(s.index, kernel.Pack(level.Newest, time.Now(), [][]byte{data}))[0]
}

// ask asks a question for a tenant, and returns its decision.
func (s *state) ask(tenant, url string) ident.Decision {
	c, ok := s.View().CoreOf(tenant, "core")
	if !ok {
		c = s.do(coreverbs.PutCore{Tenant: tenant, User: "ada", Slug: "core", Name: "core", Source: []byte("p"), Digest: "d"}).(coreverbs.Result).Core
		for _, a := range []cores.Action{cores.Start, cores.Ready} {
			require.Nil(s.t, s.do(coreverbs.ControlCore{ID: c.ID, Action: a}).(coreverbs.Result).Refusal)
		}
	}
	made := s.do(executionverbs.StartExecutions{Starts: []executionverbs.Start{{
		Core: c.ID, Tenant: tenant, User: "ada", Version: 1, Flow: "main", Frame: []byte("f"),
		First: &executionverbs.Advance{Frame: []byte("f"), Outcome: executionverbs.GoesOn, Effects: []executionverbs.Effect{{
			Wait: 1, Path: "ask", Ask: &executions.Decision{Prompt: "?", NotifyURL: url},
		}}},
	}}}).(executionverbs.StartsResult).Results[0]
	require.Nil(s.t, made.Refusal)
	return made.Execution.Waits[0].Decision
}

func (s *state) decision(id ident.Decision) *executions.Decision {
	d, ok := s.View().Decision(id)
	require.True(s.t, ok)
	return d
}

// receiver stands for the network: answer says what a host answers.
type receiver struct {
	mu     sync.Mutex
	got    []string // "HOST EVENT"
	ids    map[string]int
	answer func(r *http.Request) (int, error)
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.got = append(r.got, req.URL.Host+" "+m.Event)
	if r.ids == nil {
		r.ids = map[string]int{}
	}
	r.ids[req.Header.Get("Webhook-Id")]++
	answer := r.answer
	r.mu.Unlock()
	code := 200
	if answer != nil {
		if code, err = answer(req); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("ok")), Header: http.Header{}, Request: req}, nil
}

func (r *receiver) answers(answer func(r *http.Request) (int, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

// notices has the tries of each notice, by its webhook-id.
func (r *receiver) notices() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ids)
}

// silent answers when the caller has given up.
func silent(r *http.Request) (int, error) {
	<-r.Context().Done()
	return 0, r.Context().Err()
}

func always(code int) func(*http.Request) (int, error) {
	return func(*http.Request) (int, error) { return code, nil }
}

// lead has a sender lead until the returned function is called.
func lead(t testing.TB, s *state, r *receiver, change func(*Config)) (stop func()) {
	n := sender(t, func(c *Config) {
		c.Hosts, c.State, c.Transport = []string{"*.example"}, s, r
		if change != nil {
			change(c)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Lead(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLead_sendsEachNoticeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		var outcomes tally
		defer lead(t, s, r, func(c *Config) { c.Tried = outcomes.add })()
		id := s.ask("acme", "https://a.example/x")
		s.do(executionverbs.ReassignDecision{Decision: id, Tenant: "acme", Any: true, Assignee: "ann"})
		s.do(executionverbs.CancelDecision{Decision: id, Tenant: "acme", Any: true})
		pass(5 * time.Second)
		require.Equal(t, []string{"a.example decision.created", "a.example decision.reassigned", "a.example decision.cancelled"}, r.seen())
		d := s.decision(id)
		require.Empty(t, d.Untold)
		require.NotZero(t, d.NotifiedAt)
		require.Len(t, r.notices(), 3)
		require.Equal(t, map[string]int{"sent": 3}, outcomes.all())
		pass(time.Hour)
		require.Len(t, r.seen(), 3, "nothing is sent twice")
	})
}

// A leader that dies between the request and its note is followed by one that sends the notice again, under the same id.
func TestLead_aDeathRepeatsANoticeAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		id := s.ask("acme", "https://a.example/x")
		s.down = true
		stop := lead(t, s, r, nil)
		pass(time.Minute)
		stop()
		require.Len(t, r.seen(), 1, "while it cannot be noted, the same leader does not send it again")
		require.Len(t, s.decision(id).Untold, 1)
		s.down = false
		defer lead(t, s, r, nil)()
		pass(time.Second)
		require.Len(t, r.seen(), 2)
		require.Len(t, r.notices(), 1, "a receiver sees that it is the same one")
		require.Empty(t, s.decision(id).Untold)
	})
}

func TestLead_triesAgainAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		r.answers(always(503))
		defer lead(t, s, r, nil)()
		id := s.ask("acme", "https://a.example/x")
		pass(time.Second)
		require.Equal(t, "it answered 503", s.decision(id).NotifyError)
		pass(12 * time.Hour)
		require.InDelta(t, 12*60/5, len(r.seen()), 10, "the pauses grow to five minutes")
		_, noted := s.counts()
		require.Equal(t, 1, noted, "the same error is noted once")
		require.Len(t, r.notices(), 1)
		pass(13 * time.Hour)
		d := s.decision(id)
		require.Equal(t, "given up: it answered 503", d.NotifyError)
		require.Empty(t, d.Untold)
		require.Zero(t, d.NotifiedAt)

		tries := len(r.seen())
		again := s.ask("acme", "https://a.example/x")
		pass(time.Second)
		r.answers(nil)
		pass(10 * time.Second)
		require.Empty(t, s.decision(again).Untold)
		require.Empty(t, s.decision(again).NotifyError, "the error goes when a try succeeds")
		require.Len(t, r.seen(), tries+2)

		r.answers(always(410))
		gone := s.ask("acme", "https://a.example/x")
		pass(time.Second)
		require.Equal(t, "given up: it answered 410 Gone", s.decision(gone).NotifyError)
	})
}

// Endpoints that never answer, and a tenant with many of them, keep nobody else waiting.
func TestLead_deadEndpointsDoNotStallOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		most, open := 0, map[string]int{}
		var mu sync.Mutex
		r.answers(func(req *http.Request) (int, error) {
			if !strings.HasPrefix(req.URL.Host, "dead") {
				return 200, nil
			}
			mu.Lock()
			open[req.URL.Host]++
			most = max(most, open[req.URL.Host])
			mu.Unlock()
			defer func() {
				mu.Lock()
				open[req.URL.Host]--
				mu.Unlock()
			}()
			return silent(req)
		})
		for i := range 300 {
			s.ask("mean", fmt.Sprintf("https://dead%d.example/x", i%20))
		}
		defer lead(t, s, r, nil)()
		pass(time.Second)
		for i := range 10 {
			id := s.ask("acme", "https://good.example/x")
			pass(time.Second)
			require.Empty(t, s.decision(id).Untold, "notice %d", i)
		}
		mu.Lock()
		require.LessOrEqual(t, most, perEndpoint)
		mu.Unlock()
		r.answers(nil)
		pass(15 * time.Minute)
		require.Zero(t, s.View().UntoldCount(), "all are sent when the endpoints are back")
	})
}

func TestLead_secretsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState(t)
		var signature string
		r := &receiver{answer: func(req *http.Request) (int, error) {
			signature = req.Header.Get("Webhook-Signature")
			return 200, nil
		}}
		path := ""
		defer lead(t, s, r, func(c *Config) { path = c.SecretFile })()
		for text, signatures := range map[string]int{secretB: 1, secretA + "\n" + secretB: 2} {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			s.ask("acme", "https://a.example/x")
			pass(time.Second)
			require.Len(t, strings.Fields(signature), signatures)
		}
		require.NoError(t, os.WriteFile(path, []byte("half a sec"), 0o600))
		s.ask("acme", "https://a.example/x")
		pass(time.Second)
		require.Len(t, r.seen(), 3)
		require.NotEmpty(t, signature, "those that were read last sign")
	})
}
