package call

import (
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Actor is who a command of this call is put down to. What a caller names himself is bounded by the state.
func (c *Call) Actor() *access.Actor {
	token, _ := ident.ParseToken(c.Token)
	return &access.Actor{Tenant: c.Tenant, User: c.User, Token: token, Request: c.RequestID}
}

// Submitter is actor for submits: each job says itself whose it is.
func (c *Call) Submitter() *access.Actor {
	a := c.Actor()
	a.Tenant, a.User = "", ""
	return a
}

// OperatorActor is actor for calls that are made for no tenant: who the certificate says it is, if nothing else is said.
func (c *Call) OperatorActor() *access.Actor {
	a := c.Actor()
	if a.User == "" && c.Peer.ID != "" {
		a.User = c.Peer.String()
	}
	return a
}

// Sign says on whose behalf a job is created.
func (c *Call) Sign(job *work.NewJob, key string) {
	job.Tenant, job.User, job.Key = c.Tenant, c.User, key
	job.AutoKey = strings.HasPrefix(key, status.AutoKeyPrefix)
}

// TenantNamed is the tenant that a call about quotas or the audit log is about: the caller's own, or for operators any.
// The gateway vouches for operators; without its word nobody learns whether another tenant has a quota.
func (c *Call) TenantNamed(named string) (string, error) {
	switch {
	case named == "" || named == c.Tenant:
		return c.Tenant, nil
	case !c.Operator:
		return "", Errorf(codes.PermissionDenied, "this is about another tenant than the call is made for: only operators of the cluster may look there")
	case len(named) > MaxIdentity:
		return "", Bad("tenant_id", "takes at most %d bytes", MaxIdentity)
	}
	return named, nil
}
