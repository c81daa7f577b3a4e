package call

import (
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

// Actor returns the user in whose name this call's command is proposed. The state limits the length of the names.
func (c *Call) Actor() *access.Actor {
	token, _ := ident.ParseToken(c.Token)
	return &access.Actor{Tenant: c.Tenant, User: c.User, Token: token, Request: c.RequestID}
}

// Submitter returns the actor of a submit, without the user: each job names its own.
func (c *Call) Submitter() *access.Actor {
	a := c.Actor()
	a.Tenant, a.User = "", ""
	return a
}

// OperatorActor returns the actor of a call without a tenant: the identity in the certificate, unless the call names
// another.
func (c *Call) OperatorActor() *access.Actor {
	a := c.Actor()
	if a.User == "" && c.Peer.ID != "" {
		a.User = c.Peer.String()
	}
	return a
}

// Sign sets the owner of a job.
func (c *Call) Sign(job *jobverbs.NewJob, key string) {
	job.Tenant, job.User, job.Key = c.Tenant, c.User, key
	job.AutoKey = strings.HasPrefix(key, status.AutoKeyPrefix)
}

// TenantNamed returns the tenant of a call about quotas or the audit log: the caller's own or, for operators, any. The
// gateway has checked operators; other callers do not learn whether another tenant has a quota.
func (c *Call) TenantNamed(named string) (string, error) {
	switch {
	case named == "" || named == c.Tenant:
		return c.Tenant, nil
	case !c.Operator:
		return "", Errorf(codes.PermissionDenied, "this is about another tenant: only operators of the cluster may do that")
	case len(named) > MaxIdentity:
		return "", Bad("tenant_id", "must have at most %d bytes", MaxIdentity)
	}
	return named, nil
}
