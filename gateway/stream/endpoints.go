package stream

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
	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/param"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// Handlers serve the paths of event streams.
type Handlers struct {
	source Source
	hub    *fanout.Hub
}

// New returns handlers that share the streams of a source through a hub.
func New(source Source, hub *fanout.Hub) *Handlers { return &Handlers{source: source, hub: hub} }

// Parameters of streams.
var (
	lastEvent = param.Text("last_event_id", "continue after this event; same as the header Last-Event-ID")
	following = param.Flag("follow", "default true; false: end when all existing events were sent")
)

// Endpoints are those of event streams.
func (h *Handlers) Endpoints() []rest.Endpoint {
	return []rest.Endpoint{
		{RPC: v1.JobService_StreamJobLogs_FullMethodName, Serve: h.streamLogs, Doc: openapi.Operation{Query: []openapi.Parameter{
			param.Number("tail", "only the last existing lines; 0: only new lines", 0, param.MostInt32),
			following,
			param.Number("rank", "only this rank", 0, param.MostInt32),
			param.Number("attempt", "this attempt; default: the newest and all later ones", 0, param.MostInt32),
			param.Text("since", "RFC 3339, seconds back from now, or a duration such as 10m"),
			lastEvent, param.Ticket, param.Consistency,
		}}},
		{RPC: v1.JobService_StreamJobMetrics_FullMethodName, Serve: h.streamMetrics, Doc: openapi.Operation{Query: []openapi.Parameter{following, lastEvent, param.Ticket, param.Consistency}}},
		{RPC: v1.EventService_WatchEvents_FullMethodName, Serve: h.streamEvents, Doc: openapi.Operation{Query: []openapi.Parameter{
			param.Texts("topic", "only events about "+strings.Join(status.MindTopics, ", ")+" (scaimind:view), "+strings.Join(status.CoreTopics, ", ")+" (scaicore:view); repeatable"),
			{Name: "since_index", Text: "start after this state index; 0: with the oldest event that is remembered; default: now", Schema: openapi.Object{"type": "integer", "minimum": 0}},
			lastEvent, param.Ticket, param.Consistency,
		}}},
	}
}

func (h *Handlers) streamLogs(x *rest.Request) error {
	request, faults := wire.StreamJobLogs(x.R.URL.Query(), time.Now())
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	request.JobId = x.ID()
	cursor, stale, err := start(x)
	if err != nil {
		return err
	}
	return h.relay(x, h.source.Logs(watching(x, stale), request), cursor)
}

func (h *Handlers) streamMetrics(x *rest.Request) error {
	request := &v1.StreamJobMetricsRequest{JobId: x.ID()}
	var faults []wire.Fault
	request.Follow, faults = wire.Bool(x.R.URL.Query(), "follow", nil)
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	cursor, stale, err := start(x)
	if err != nil {
		return err
	}
	return h.relay(x, h.source.Metrics(watching(x, stale), request), cursor)
}

func (h *Handlers) streamEvents(x *rest.Request) error {
	query := x.R.URL.Query()
	var since *uint64
	if raw := query.Get("since_index"); raw != "" {
		index, err := strconv.ParseUint(raw, 10, 64)
		if err != nil || index > math.MaxInt64 {
			return rest.Invalid("since_index", fmt.Sprintf("must be a state index, as in X-Mind-Index, not %q", wire.Printable(raw)))
		}
		since = &index
	}
	from, stale, err := start(x)
	if err != nil {
		return err
	}
	if from == "" && since != nil {
		from = Behind(*since)
	}
	watched, err := topics(x, query["topic"])
	if err != nil {
		return err
	}
	return h.relay(x, h.source.Changes(watching(x, stale), watched), from)
}

// topicGroups are the topics of events, with the permissions of which their watcher needs one.
var topicGroups = []struct{ topics, anyOf []string }{
	{status.MindTopics, []string{auth.PermissionView}},
	{status.CoreTopics, []string{auth.CoreView, auth.CoreAdmin}},
}

// topics returns the topics to watch for a caller who asks for some, or for none: then all that the caller may see. The stream goes on
// only while the caller keeps their permissions.
func topics(x *rest.Request, asked []string) ([]string, error) {
	var may []string
	for _, g := range topicGroups {
		wants := len(asked) == 0
		for _, topic := range asked {
			wants = wants || slices.Contains(g.topics, topic)
		}
		switch {
		case !wants:
		case x.Caller.May(g.anyOf...):
			may = append(may, g.topics...)
			x.Needs = append(x.Needs, g.anyOf)
		case len(asked) > 0:
			return nil, &rest.Problem{
				HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED",
				Message: "events about " + strings.Join(g.topics, ", ") + " need the permission " + strings.Join(g.anyOf, " or "),
			}
		}
	}
	if len(asked) > 0 || len(x.Needs) == len(topicGroups) {
		return asked, nil // None are all.
	}
	return may, nil
}

// watching returns the call that reads a stream, with the consistency of its start. It has no idempotency key or deadline:
// other callers may share it.
func watching(x *rest.Request, consistency string) client.Call {
	return client.Call{Tenant: x.Caller.Tenant, User: x.Caller.User, RequestID: x.RequestID, Consistency: consistency}
}

// relay answers with the events of a subject until it ends. Errors before the first event are answered in the envelope.
func (h *Handlers) relay(x *rest.Request, subject fanout.Subject, cursor string) error {
	s := x.Server
	release, err := x.OpenStream()
	if err != nil {
		return err
	}
	defer release()
	w := h.hub.Watch(subject, cursor)
	defer w.Close()
	r := &reader{x: x}
	defer r.gone()
	err = Relay(x.R.Context(), x.W, r, w, Times{
		NoLeader: s.Timeouts.NoLeader, Keepalive: s.Timeouts.Keepalive, Recheck: x.Rechecks(), Drained: s.Drained,
	})
	if errors.Is(err, ErrDraining) {
		return &rest.Problem{
			HTTP: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Message: "this gateway is shutting down; try again", RetryAfter: 1,
		}
	}
	return err
}

// reader is the caller of a stream.
type reader struct {
	x     *rest.Request
	reads bool
}

// Begin implements Reader.
func (r *reader) Begin(index uint64) {
	r.reads = true
	r.x.Server.Metrics.Streams.Inc()
	r.x.Answer.Index = index
	r.x.Mark(r.x.W.Header())
	r.x.Code = http.StatusOK
}

func (r *reader) gone() {
	if r.reads {
		r.x.Server.Metrics.Streams.Dec()
	}
}

// MayGoOn implements Reader.
func (r *reader) MayGoOn(ctx context.Context) error { return r.x.MayGoOn(ctx) }

// Ended implements Reader.
func (r *reader) Ended(err error) (code, message string) {
	p := r.x.ProblemOf(err)
	r.x.NoteDenial(p)
	return p.Code, p.Message
}

// start returns the cursor at which a stream starts, and the consistency of its start: without a leader, that may be one
// coordinator's state.
func start(x *rest.Request) (cursor, consistency string, err error) {
	if consistency, err = x.Consistency(); err != nil {
		return "", "", err
	}
	cursor, err = lastEventID(x)
	return cursor, consistency, err
}

// lastEventID returns the id after which the caller wants to resume: EventSource sends the header, others may use the
// query.
func lastEventID(x *rest.Request) (string, error) {
	cursor := x.R.Header.Get(rest.HeaderLastEventID)
	if cursor == "" {
		cursor = x.R.URL.Query().Get("last_event_id")
	}
	if len(cursor) > 4096 {
		return "", rest.Invalid("last_event_id", "is longer than 4096 bytes")
	}
	return cursor, nil
}
