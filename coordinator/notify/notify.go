// Package notify is the part of the leader that sends notices of decisions and of jobs to their URLs, as signed webhooks.
//
// Guarantees. The state keeps a notice until a leader has noted that it was sent, so each is sent at least once, whichever leader dies;
// every try has the same webhook-id. Notices of a decision or a job are sent one after the other, in order. A request goes only to a listed host
// at an allowed address (package reach), follows no redirect, and takes 10 s at most. Tenants are served in turn. A tenant, and each host
// that it notifies, has only a share of the requests that are under way, and a host that does not answer in time gets one at a time after
// growing pauses, so that nobody who is slow stalls the others.
//
// Not guaranteed: that a receiver sees a notice once, or the decision or job as it was at the event; the body has it as it is when it is sent.
// A notice that was not taken in a day of tries by one leader is given up; a new leader begins the day again.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/reach"
)

// State is the state of the cluster as this replica has it, and the way to change it.
type State interface {
	replica.Proposer
	View() *fsm.View
}

// Settings are those of the operator. Without a secret and hosts nothing is sent.
type Settings struct {
	// SecretFile has the secrets that sign, one a line. It is read again for each round of requests.
	SecretFile string
	// Hosts may be notified: names, *.SUFFIX, addresses, networks, or * for all public hosts.
	Hosts []string
	// URL gets the notices of Cores and checkpoints that name none; jobs have no default.
	URL string
}

// On says whether webhooks are sent.
func (s Settings) On() bool { return s.SecretFile != "" && len(s.Hosts) > 0 }

// Validate returns what is wrong with the settings.
func (s Settings) Validate() error {
	if (s.SecretFile != "") != (len(s.Hosts) > 0) || s.URL != "" && !s.On() {
		return errors.New("webhook_secret_file and webhook_hosts: give both or none, and both for webhook_url")
	}
	guard, err := reach.NewListed(hostsKey, s.Hosts)
	if err != nil {
		return fmt.Errorf("webhook_hosts: %w", err)
	}
	if s.URL != "" {
		if err := guard.Check(s.URL); err != nil {
			return fmt.Errorf("webhook_url: %w", err)
		}
	}
	return nil
}

const hostsKey = "webhook_hosts"

// errOff says why nothing is sent.
var errOff = errors.New("this cluster sends no webhooks: an operator sets webhook_secret_file and webhook_hosts of the coordinators to allow them")

// Config configures a Sender.
type Config struct {
	Settings

	State State
	// Show makes a decision as REST shows it.
	Show func(d *executions.Decision) map[string]any
	// ShowJob does so with a job.
	ShowJob func(j *work.Job) map[string]any
	// Tried is called with the outcome of each try for a decision: sent, failed or given_up; TriedOfJob for a job.
	Tried, TriedOfJob func(outcome string)
	// Transport replaces the network in tests; nil: the network.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Sender sends the notices of a cluster while its coordinator leads.
type Sender struct {
	Config
	guard     *reach.Listed
	transport http.RoundTripper
	// keys were read last; the loop of Lead owns them.
	keys keys
}

// New makes a Sender. It reads the secrets, so that a coordinator without a readable one does not start.
func New(c Config) (*Sender, error) {
	s := &Sender{Config: c}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.guard, err = reach.NewListed(hostsKey, c.Hosts); err != nil {
		return nil, fmt.Errorf("webhook_hosts: %w", err)
	}
	if c.On() {
		if s.keys, err = readKeys(c.SecretFile); err != nil {
			return nil, err
		}
	}
	if s.transport = c.Transport; s.transport == nil {
		s.transport = s.guard.Transport()
	}
	return s, nil
}

func (s *Sender) closeIdle() {
	if t, ok := s.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Check says why a URL cannot be notified.
func (s *Sender) Check(text string) error {
	switch {
	case !s.On():
		return errOff
	case len(text) > executions.MaxURL:
		return fmt.Errorf("it has %d bytes, and at most %d are allowed", len(text), executions.MaxURL)
	}
	return s.guard.Check(text)
}

// Lead sends notices until ctx ends.
func (s *Sender) Lead(ctx context.Context) {
	t := newTurn(s)
	defer s.closeIdle()
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		look := maxLooked
		var results []result
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case r := <-t.results:
			results = append(results, r)
			look = maxLookedEach
		}
		for len(t.results) > 0 {
			results = append(results, <-t.results)
		}
		if ctx.Err() != nil {
			return // The end of the term ended these requests: they say nothing about the receivers.
		}
		for _, r := range results {
			t.take(r)
		}
		t.note(ctx)
		chosen, sign := t.choose(look), t.keys
		for _, n := range chosen {
			sending.Go(func() {
				start := time.Now()
				err := s.post(ctx, sign, n.subject)
				t.results <- result{sent: n, err: err, took: time.Since(start)}
			})
		}
	}
}
