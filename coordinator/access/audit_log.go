package access

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobview"
	"github.com/mindcoordinator/mind/coordinator/words"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/access"
)

// Sizes of a page of the audit log.
const (
	defaultAuditPage = 100
	maxAuditPage     = 1000
	// allTenants asks for the records of all tenants, which only operators may do.
	allTenants = "*"
)

// ListAuditRecords lists the audit log, newest first: of the caller's tenant or, for operators, of any.
func (s *Service) ListAuditRecords(ctx context.Context, req *v1.ListAuditRecordsRequest) (*v1.ListAuditRecordsResponse, error) {
	q, err := newAuditQuery(call.Of(ctx), req)
	if err != nil {
		return nil, err
	}
	v, err := s.replica.Read(ctx)
	if err != nil {
		return nil, err
	}
	return q.run(ctx, v, s.inWords)
}

// auditQuery is the filter of a list of records.
type auditQuery struct {
	req    *v1.ListAuditRecordsRequest
	tenant string
	// all: records of all tenants. It is a flag and not a name in tenant, because a tenant may have any name.
	all     bool
	actions []access.AuditAction
	// kind is one of the actions if all of them are in the same log; 0: search both.
	kind         access.AuditAction
	since, until int64
	size         int
	// Only records before this one are listed; index 0: from the newest on.
	index    uint64
	position uint32
}

func newAuditQuery(c *call.Call, req *v1.ListAuditRecordsRequest) (*auditQuery, error) {
	q := &auditQuery{req: req, size: int(req.GetPageSize())}
	var err error
	if q.tenant, err = c.TenantNamed(req.GetTenantId()); err != nil {
		return nil, err
	}
	q.all = c.Operator && req.GetTenantId() == allTenants
	if text := req.GetAction(); text != "" {
		if q.actions = access.ParseAuditActions(text); len(q.actions) == 0 {
			return nil, call.Bad("action", "there is no action %.60q: the actions are %s, and the part before the dot selects all of a kind",
				text, strings.Join(access.AuditActions(), ", "))
		}
		q.kind = q.actions[0] // The kind of an action decides in which log it is kept.
	}
	if text := req.GetOutcome(); text != "" && !slices.Contains(auditOutcomes, text) {
		return nil, call.Bad("outcome", "there is no outcome %.60q: they are %s", text, strings.Join(auditOutcomes, ", "))
	}
	switch {
	case q.size == 0:
		q.size = defaultAuditPage
	case q.size < 0 || q.size > maxAuditPage:
		return nil, call.Bad("page_size", "must be 1 to %d", maxAuditPage)
	}
	for field, at := range map[string]struct {
		given interface {
			CheckValid() error
			AsTime() time.Time
		}
		set bool
		to  *int64
	}{
		"since": {req.GetSince(), req.GetSince() != nil, &q.since}, "until": {req.GetUntil(), req.GetUntil() != nil, &q.until},
	} {
		if !at.set {
			continue
		}
		if err := at.given.CheckValid(); err != nil {
			return nil, call.Bad(field, "is not a time")
		}
		*at.to = at.given.AsTime().UnixNano()
	}
	if token := req.GetPageToken(); token != "" {
		index, position, ok := parseAuditPage(token)
		if !ok {
			return nil, call.Bad("page_token", "%.60q is not a page token: send the next_page_token of the previous page unchanged", token)
		}
		q.index, q.position = index, position
	}
	return q, nil
}

// parseAuditPage parses a page token: the index and the position of the last record of the previous page.
func parseAuditPage(token string) (index uint64, position uint32, ok bool) {
	a, b, found := strings.Cut(token, ".")
	index, err1 := strconv.ParseUint(a, 10, 64)
	at, err2 := strconv.ParseUint(b, 10, 32)
	return index, uint32(at), found && err1 == nil && err2 == nil && index > 0
}

// auditOutcomes are the outcomes of records.
var auditOutcomes = []string{
	"OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
	"PERMISSION_DENIED", "UNAUTHENTICATED",
}

func (q *auditQuery) run(ctx context.Context, v *fsm.View, inWords InWords) (*v1.ListAuditRecordsResponse, error) {
	out := &v1.ListAuditRecordsResponse{DroppedBeforeIndex: v.AuditDroppedBefore(q.kind)}
	seen := 0
	for r := range v.AuditRecords(q.kind) {
		if seen++; seen%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.index != 0 && (r.Index > q.index || r.Index == q.index && r.Pos >= q.position) {
			continue
		}
		if q.since != 0 && r.Time < q.since {
			break // Log time never goes back: all further records are older.
		}
		if !q.wants(r) {
			continue
		}
		if len(out.Records) == q.size {
			last := out.Records[q.size-1]
			out.NextPageToken = fmt.Sprintf("%d.%d", last.GetIndex(), last.GetPosition())
			break
		}
		out.Records = append(out.Records, auditView(v, r, inWords))
	}
	return out, nil
}

func (q *auditQuery) wants(r *access.AuditRecord) bool {
	req := q.req
	switch {
	case !q.all && r.Tenant != q.tenant,
		q.until != 0 && r.Time >= q.until,
		req.GetUserId() != "" && r.User != req.GetUserId(),
		len(q.actions) > 0 && !slices.Contains(q.actions, r.Action),
		req.GetObject() != "" && auditObject(r) != req.GetObject(),
		req.GetOutcome() != "" && auditOutcome(r) != req.GetOutcome():
		return false
	}
	return true
}

func auditObject(r *access.AuditRecord) string {
	if r.Job != 0 {
		return r.Job.String()
	}
	return r.Object
}

func auditOutcome(r *access.AuditRecord) string {
	if r.Code == 0 {
		return "OK"
	}
	return status.CodeName(codes.Code(r.Code))
}

func auditView(v *fsm.View, r *access.AuditRecord, inWords InWords) *v1.AuditRecord {
	out := &v1.AuditRecord{
		Index: r.Index, Position: int32(r.Pos), Time: call.Time(r.Time), TenantId: r.Tenant, UserId: r.User,
		Action: r.Action.String(), Object: auditObject(r), Outcome: auditOutcome(r), Message: words.Of(r.Message), RequestId: r.Request,
	}
	if r.Code != 0 {
		out.Message = jobview.InWords(v, out.Message) // A reason that a person gave is not changed.
	}
	if r.Token != 0 {
		out.TokenId = r.Token.String()
	}
	return out
}
