package access

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/denials"
	"github.com/mindcoordinator/mind/api/methods"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/pki"
)

// denialsTime is the minimum time for recording denials: enough for an election and the commit after it. Denials that
// are not recorded by then are lost.
const denialsTime = time.Minute

// denialCodes are the possible outcomes of a denial.
var denialCodes = map[string]kernel.Code{"UNAUTHENTICATED": kernel.CodeUnauthenticated, "PERMISSION_DENIED": kernel.CodePermissionDenied}

// NoteDenial counts a denied call. The caller's own identity is trusted only if the call was admitted.
func (s *Service) NoteDenial(ctx context.Context, c *call.Call, full string, err error) {
	code := grpcstatus.Code(err)
	if c.HandedOn || code != codes.PermissionDenied && code != codes.Unauthenticated {
		return
	}
	d := denials.Denial{Outcome: status.CodeName(code), Reason: "API_SECRET_INVALID", What: call.Method(full)}
	if code == codes.PermissionDenied {
		d.Reason = "NOT_FOR_THIS_CALLER"
	}
	if c.Admitted {
		d.Tenant, d.User, d.Token = c.Tenant, c.User, c.Token
	}
	if d.Tenant == "" && c.Peer.ID != "" {
		d.Reason += " (" + c.Peer.String() + ")"
	}
	if p, ok := peer.FromContext(ctx); ok && !(c.Admitted && c.Forwarded) { // Otherwise the peer is the coordinator that forwarded the call.
		d.Address = p.Addr.String()
		if host, _, err := net.SplitHostPort(d.Address); err == nil {
			d.Address = host
		}
	}
	if s.denied.Note(d, c.RequestID, time.Now()) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "access denied", slog.String("event", "scaimind_access_denied"),
			slog.String("request_id", c.RequestID), slog.String("method", d.What), slog.String("code", d.Reason), slog.String("address", d.Address),
			slog.String("tenant_id", d.Tenant), slog.String("user_id", d.User), slog.String("token_id", d.Token), slog.Any("error", err))
	}
}

// WriteDenials periodically records this coordinator's denials until ctx ends. Denials that were not recorded by then are
// only in its own log.
func (s *Service) WriteDenials(ctx context.Context) {
	const name = v1.AuditService_RecordDenials_FullMethodName
	record := func(ctx context.Context, req any) (any, error) {
		return s.RecordDenials(ctx, req.(*v1.RecordDenialsRequest))
	}
	s.denied.Report(ctx, denials.Reports{
		By: s.replica.ID(), Every: s.denialsEvery, Within: max(s.denialsEvery, denialsTime),
		Record: func(within context.Context, told []*v1.Denial) error {
			c := &call.Call{}
			_, err := s.replica.Write(call.With(within, c), c, name, &v1.RecordDenialsRequest{Denials: told}, methods.Of(name).NewReply, record)
			return err
		},
		Lost: func(_ context.Context, told []*v1.Denial, err error) {
			if ctx.Err() == nil {
				s.log.Error("denied calls are not in the audit log", "kinds", len(told), "error", err)
			}
		},
	})
}

// RecordDenials records denials of a gateway, of another coordinator or of an agent. They are trusted, as is the caller's
// identity that they report. An agent reports a job instead, and the denial is that of its submitter.
func (s *Service) RecordDenials(ctx context.Context, req *v1.RecordDenialsRequest) (*v1.RecordDenialsResponse, error) {
	if n := len(req.GetDenials()); n == 0 || n > access.MaxDenials {
		return nil, call.Bad("denials", "must have 1 to %d entries, not %d", access.MaxDenials, n)
	}
	command := access.RecordDenials{}
	for _, d := range req.GetDenials() {
		code, ok := denialCodes[d.GetOutcome()]
		if !ok || d.GetCount() < 1 {
			return nil, call.Bad("denials", "each must have the outcome UNAUTHENTICATED or PERMISSION_DENIED, and a count")
		}
		if d.GetJobId() != "" || call.Of(ctx).Peer.Role == pki.RoleAgent {
			s.attribute(d)
		}
		token, _ := ident.ParseToken(d.GetTokenId())
		command.Denials = append(command.Denials, access.Denial{
			Tenant: shortened(d.GetTenantId()), User: shortened(d.GetUserId()), Token: token, Code: code, Reason: shortened(d.GetReason()), What: shortened(d.GetObject()),
			From: shortened(d.GetAddress()), Count: uint64(d.GetCount()), Lasted: int64(max(0, d.GetLastAt().AsTime().Sub(d.GetFirstAt().AsTime()))),
			Request: shortened(d.GetRequestId()), By: shortened(d.GetDeniedBy()),
		})
	}
	result, err := replica.Propose[access.DenialsResult](ctx, s.replica, command)
	if err != nil {
		return nil, err
	}
	return &v1.RecordDenialsResponse{Recorded: int32(result.Recorded)}, nil
}

// attribute attributes a denial to the submitter of its job; to nobody, if the job is no longer known.
func (s *Service) attribute(d *v1.Denial) {
	d.TenantId, d.UserId, d.TokenId = "", "", ""
	id, ok := ident.ParseJob(d.GetJobId())
	if !ok {
		return
	}
	if job, ok := s.replica.View().Job(id); ok {
		d.TenantId, d.UserId = job.Tenant, job.User
	}
}

// shortened limits a text before it goes into the log; the state would cut it, too, but possibly within a character, and no
// answer could then carry the page that contains it.
func shortened(s string) string { return strings.ToValidUTF8(s[:min(len(s), call.MaxIdentity)], "") }
