package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/fanout"
	"github.com/mindcoordinator/mind/gateway/stream"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func streamLogs(x *httpRequest) error {
	request, faults := wire.StreamJobLogs(x.r.URL.Query(), time.Now())
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	request.JobId = id(x)
	cursor, err := x.beginning()
	if err != nil {
		return err
	}
	return relay(x, x.server.watched.Logs(x.watching(), request), cursor)
}

func streamMetrics(x *httpRequest) error {
	request := &v1.StreamJobMetricsRequest{JobId: id(x)}
	var faults []wire.Fault
	request.Follow, faults = wire.Bool(x.r.URL.Query(), "follow", nil)
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	cursor, err := x.beginning()
	if err != nil {
		return err
	}
	return relay(x, x.server.watched.Metrics(x.watching(), request), cursor)
}

func streamEvents(x *httpRequest) error {
	query := x.r.URL.Query()
	var since *uint64
	if raw := query.Get("since_index"); raw != "" {
		index, err := strconv.ParseUint(raw, 10, 64)
		if err != nil || index > math.MaxInt64 {
			return invalid("since_index", fmt.Sprintf("must be a state index, as in X-Mind-Index, not %q", wire.Printable(raw)))
		}
		since = &index
	}
	from, err := x.beginning()
	if err != nil {
		return err
	}
	if from == "" && since != nil {
		from = stream.Behind(*since)
	}
	topics, err := x.topics(query["topic"])
	if err != nil {
		return err
	}
	return relay(x, x.server.watched.Changes(x.watching(), topics), from)
}

// topicGroups are the topics of events, with the permissions of which their watcher needs one.
var topicGroups = []struct{ topics, anyOf []string }{
	{status.MindTopics, []string{auth.PermissionView}},
	{status.CoreTopics, []string{auth.CoreView, auth.CoreAdmin}},
}

// topics returns the topics to watch for a caller who asks for some, or for none: then all that the caller may see. The stream goes on
// only while the caller keeps their permissions.
func (x *httpRequest) topics(asked []string) ([]string, error) {
	var may []string
	for _, g := range topicGroups {
		wants := len(asked) == 0
		for _, topic := range asked {
			wants = wants || slices.Contains(g.topics, topic)
		}
		switch {
		case !wants:
		case x.caller.May(g.anyOf...):
			may = append(may, g.topics...)
			x.needs = append(x.needs, g.anyOf)
		case len(asked) > 0:
			return nil, &problem{
				http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED",
				message: "events about " + strings.Join(g.topics, ", ") + " need the permission " + strings.Join(g.anyOf, " or "),
			}
		}
	}
	if len(asked) > 0 || len(x.needs) == len(topicGroups) {
		return asked, nil // None are all.
	}
	return may, nil
}

// watching returns the call that reads a stream. It has no idempotency key or deadline: other callers may share it.
func (x *httpRequest) watching() client.Call {
	return client.Call{Tenant: x.caller.Tenant, User: x.caller.User, RequestID: x.requestID, Consistency: x.stale}
}

// relay answers with the events of a subject until it ends. Errors before the first event are answered in the envelope.
func relay(x *httpRequest, subject fanout.Subject, cursor string) error {
	s := x.server
	release, err := x.openStream()
	if err != nil {
		return err
	}
	defer release()
	w := s.hub.Watch(subject, cursor)
	defer w.Close()
	r := &reader{x: x}
	defer r.gone()
	err = stream.Relay(x.r.Context(), x.w, r, w, stream.Times{
		NoLeader: s.config.Timeouts.NoLeader, Keepalive: s.config.Timeouts.Keepalive, Recheck: x.recheckEvery(), Drained: s.drained,
	})
	if errors.Is(err, stream.ErrDraining) {
		return &problem{
			http: http.StatusServiceUnavailable, code: "UNAVAILABLE", message: "this gateway is shutting down; try again", retryAfter: 1,
		}
	}
	return err
}

// openStream counts a stream of the caller's tenant until the function is called.
func (x *httpRequest) openStream() (release func(), err error) {
	s := x.server
	closed, err := s.opened.Open(x.caller.Tenant)
	if err != nil {
		return nil, &problem{http: http.StatusTooManyRequests, code: "RESOURCE_EXHAUSTED", message: err.Error(), retryAfter: 5}
	}
	s.streams.Add(1)
	return func() {
		closed()
		s.streams.Done()
	}, nil
}

// reader is the caller of a stream.
type reader struct {
	x     *httpRequest
	reads bool
}

// Begin implements stream.Reader.
func (r *reader) Begin(index uint64) {
	r.reads = true
	r.x.server.metrics.Streams.Inc()
	r.x.answer.Index = index
	r.x.mark(r.x.w.Header())
	r.x.code = http.StatusOK
}

func (r *reader) gone() {
	if r.reads {
		r.x.server.metrics.Streams.Dec()
	}
}

// MayGoOn implements stream.Reader. It returns nil while the token has the permissions that it had at the start. If
// that cannot be checked at the moment, it is checked later: an election does not end streams.
func (r *reader) MayGoOn(ctx context.Context) error {
	x := r.x
	now, err := x.recheck(auth.WithAddress(ctx, x.server.proxies.ClientOf(x.r)))
	switch {
	case errors.Is(err, auth.ErrInvalidToken), err == nil && (now.Tenant != x.caller.Tenant || now.User != x.caller.User):
		if x.caller.Session != nil {
			return &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "the session has ended: sign in again, and resume after the last id"}
		}
		return &problem{http: http.StatusUnauthorized, code: "AUTH_TOKEN_INVALID", message: "the token expired or was revoked: resume after the last id with a valid token"}
	case err == nil && len(x.route.anyOf) > 0 && !now.May(x.route.anyOf...),
		err == nil && slices.ContainsFunc(x.needs, func(anyOf []string) bool { return !now.May(anyOf...) }):
		return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: "the token lost the permission to read this"}
	}
	return nil
}

// Ended implements stream.Reader.
func (r *reader) Ended(err error) (code, message string) {
	p := r.x.problemOf(err)
	r.x.noteDenial(p)
	return p.code, p.message
}

// beginning returns the cursor at which a stream starts, and sets the consistency of its start: without a leader, that
// may be one coordinator's state.
func (x *httpRequest) beginning() (cursor string, err error) {
	if x.stale, err = x.consistency(); err != nil {
		return "", err
	}
	return x.lastEventID()
}

// lastEventID returns the id after which the caller wants to resume: EventSource sends the header, others may use the
// query.
func (x *httpRequest) lastEventID() (string, error) {
	cursor := x.r.Header.Get(headerLastEventID)
	if cursor == "" {
		cursor = x.r.URL.Query().Get("last_event_id")
	}
	if len(cursor) > 4096 {
		return "", invalid("last_event_id", "is longer than 4096 bytes")
	}
	return cursor, nil
}
