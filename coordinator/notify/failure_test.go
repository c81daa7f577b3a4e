package notify

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/executionverbs"
)

// A notice that replaces another one about the same event is not tried sooner for that, and is given up, too.
func TestLead_aReplacedNoticeKeepsItsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		var outcomes tally
		defer lead(t, s, r, func(c *Config) { c.Tried = outcomes.add })()
		id := s.ask("acme", "https://a.example/x")
		pass(time.Second)
		r.answers(always(503))
		for i := range 24 * 60 {
			s.do(executionverbs.ReassignDecision{Decision: id, Tenant: "acme", Any: true, Assignee: fmt.Sprint("ann", i)})
			pass(time.Minute)
		}
		require.InDelta(t, 24*60/5, len(r.seen()), 15, "the pauses grow to five minutes")
		require.Zero(t, outcomes.all()["given_up"])
		pass(10 * time.Minute)
		require.Equal(t, 1, outcomes.all()["given_up"])
		require.Empty(t, s.decision(id).Untold)
		require.Equal(t, "given up: it answered 503", s.decision(id).NotifyError)

		r.answers(nil)
		s.do(executionverbs.ReassignDecision{Decision: id, Tenant: "acme", Any: true, Assignee: "bob"})
		pass(6 * time.Minute)
		require.Empty(t, s.decision(id).Untold)
		require.Empty(t, s.decision(id).NotifyError)
		tries := len(r.seen())
		r.answers(always(503))
		s.do(executionverbs.ReassignDecision{Decision: id, Tenant: "acme", Any: true, Assignee: "ann"})
		pass(6 * time.Second)
		require.Len(t, r.seen(), tries+2, "after a success the pauses begin again with the shortest")
	})
}

// A notice that waited for days, for whatever reason, has as many tries as a new one.
func TestLead_anOldNoticeHasItsTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		id := s.ask("acme", "https://a.example/x")
		s.do(executionverbs.CancelDecision{Decision: id, Tenant: "acme", Any: true})
		pass(48 * time.Hour)
		r.answers(always(503))
		defer lead(t, s, r, nil)()
		pass(23 * time.Hour)
		require.Len(t, s.decision(id).Untold, 2)
		pass(70 * time.Minute)
		require.Len(t, s.decision(id).Untold, 1, "the first is given up after a day")
		before := len(r.seen())
		pass(2 * time.Hour)
		require.Empty(t, s.decision(id).Untold)
		events := map[string]int{}
		for _, e := range r.seen() {
			events[e]++
		}
		require.Equal(t, minTries, events["a.example decision.cancelled"], "the next one had its tries, %d before", before)
	})
}

// A coordinator that does not send leaves the notices to one that does, however long that takes.
func TestLead_offSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		tried := 0
		id := s.ask("acme", "https://a.example/x")
		stop := lead(t, s, r, func(c *Config) {
			c.Settings = Settings{}
			c.Tried = func(string) { tried++ }
		})
		pass(giveUp + time.Hour)
		_, noted := s.counts()
		require.Equal(t, 1, noted, "it is said once")
		for range 200 {
			s.ask("umbrella", "https://a.example/x")
		}
		pass(time.Minute)
		stop()
		require.Empty(t, r.seen())
		require.Zero(t, tried)
		require.Equal(t, 201, s.View().UntoldCount())
		require.LessOrEqual(t, s.noted, 1+200/maxUnnoted+1, "it is said once of each")
		for tenant := range s.View().UntoldTenants("") {
			for d := range s.View().UntoldOf(tenant, 0) {
				require.Equal(t, errOff.Error(), d.NotifyError)
			}
		}
		defer lead(t, s, r, nil)()
		pass(10 * time.Second)
		require.Len(t, r.seen(), 201)
		require.Empty(t, s.decision(id).NotifyError)
	})
}

// The end of a term ends requests. That says nothing about their receivers.
func TestLead_theEndOfTheTermIsNoFailure(t *testing.T) {
	for range 8 { // The loop may see the results before the end, or the end first.
		synctest.Test(t, func(t *testing.T) {
			s, r := newState(t), &receiver{}
			r.answers(hangs)
			var outcomes []string
			held, release := make(chan struct{}), make(chan struct{})
			s.hold = func() {
				close(held)
				<-release
			}
			bad := s.ask("acme", "https://dead.example/x")
			s.ask("acme", "https://good.example/x")
			stop := lead(t, s, r, func(c *Config) { c.Tried = func(o string) { outcomes = append(outcomes, o) } })
			<-held // The loop proposes the note about the good one.
			s.hold = nil
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				stop()
			}()
			synctest.Wait() // The request to the other one has ended.
			close(release)
			<-ended
			require.Equal(t, []string{"sent"}, outcomes)
			require.Empty(t, s.decision(bad).NotifyError)
			require.Equal(t, 1, s.proposals)
		})
	}
}

// While nothing can be noted, little more is sent, because a successor sends all of it again.
func TestLead_whileNothingCanBeNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newState(t), &receiver{}
		for range 300 {
			s.ask("acme", "https://a.example/x")
		}
		var log logged
		s.down = true
		defer lead(t, s, r, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })()
		pass(10 * time.Minute)
		require.GreaterOrEqual(t, len(r.seen()), maxUnnoted)
		require.Less(t, len(r.seen()), maxUnnoted+inFlight)
		proposals, _ := s.counts()
		require.InDelta(t, 10*60/15, proposals, 6)
		require.Equal(t, 1, strings.Count(log.text(), "cannot be noted"), log.text())
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
		pass(time.Minute)
		require.Zero(t, s.View().UntoldCount())
		require.Len(t, r.seen(), 300)
		for id, n := range r.ids {
			require.Equal(t, 1, n, id)
		}
	})
}

// logged has the lines that a sender has logged.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}
