package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/wire"
)

func (h *Handlers) createToken(x *rest.Request) error {
	request := &v1.CreateTokenRequest{}
	if err := decodeToken(x, request); err != nil {
		return err
	}
	if err := mayCreate(x, request); err != nil {
		return err
	}
	// The token is created here and only its digest is sent on, so no other process knows it.
	token := auth.MintToken()
	digest := sha256.Sum256([]byte(token))
	request.Digest = digest[:]
	call, limit, err := x.Prepare()
	if err != nil {
		return err
	}
	if request.TenantId != "" {
		call.Tenant = request.TenantId
	}
	ctx, cancel := context.WithTimeout(x.R.Context(), limit)
	defer cancel()
	reply, err := h.tokens.CreateToken(client.WithCall(ctx, call), request)
	if err != nil {
		return err
	}
	t := reply.GetToken()
	x.OK(&v1.NewToken{
		Token: token, TokenId: t.GetTokenId(), Name: t.GetName(), TenantId: t.GetTenantId(), UserId: t.GetUserId(),
		Permissions: t.GetPermissions(), CreatedAt: t.GetCreatedAt(), ExpiresAt: t.GetExpiresAt(),
	})
	return nil
}

// decodeToken reads a request for a token. A lifetime of 0 is refused: a script that computed it would get a token that is
// good for ever.
func decodeToken(x *rest.Request, request *v1.CreateTokenRequest) error {
	body, err := x.Body()
	if err != nil {
		return err
	}
	defer rest.Release(body)
	faults, _ := wire.Decode(*body, request, "digest")
	var given struct {
		Seconds *json.Number `json:"expires_in_seconds"`
	}
	if len(faults) == 0 && request.ExpiresInSeconds == 0 && json.Unmarshal(*body, &given) == nil && given.Seconds != nil {
		faults = append(faults, wire.Fault{Field: "expires_in_seconds", Message: "must be 1 or more; leave it out for a token that is good until it is revoked"})
	}
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	return nil
}

// mayCreate refuses to grant more than the caller has: another tenant, or a permission that the caller lacks, unless the
// caller is an operator.
func mayCreate(x *rest.Request, request *v1.CreateTokenRequest) error {
	var faults []wire.Fault
	if len(request.Permissions) == 0 {
		faults = append(faults, wire.Fault{Field: "permissions", Message: "give at least one of " + strings.Join(auth.AllPermissions, ", ")})
	}
	for _, f := range []struct{ field, name string }{{"tenant_id", request.TenantId}, {"user_id", request.UserId}} {
		if f.name != "" && !auth.Identifier(f.name) {
			faults = append(faults, wire.Fault{Field: f.field, Message: auth.IdentifierRule})
		}
	}
	for i, p := range request.Permissions {
		if !slices.Contains(auth.AllPermissions, p) && p != auth.PermissionOperator && len(faults) < wire.MaxFaults {
			faults = append(faults, wire.Fault{Field: fmt.Sprintf("permissions[%d]", i), Message: fmt.Sprintf("there is no permission %s: they are %s", wire.Printable(p), strings.Join(auth.AllPermissions, ", "))})
		}
	}
	if len(faults) > 0 {
		return rest.InvalidBody(faults)
	}
	operator := x.Caller.May(auth.PermissionOperator)
	for _, p := range request.Permissions {
		if !operator && !x.Caller.May(p) {
			return &rest.Problem{HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED", Message: "only a caller with the permission " + p + " can grant it"}
		}
	}
	if request.TenantId != "" && request.TenantId != x.Caller.Tenant && !operator {
		return &rest.Problem{HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED", Message: "a token for another tenant needs the permission " + auth.PermissionOperator}
	}
	return nil
}

// asTenant lets an operator manage what belongs to the tenant in the query.
func asTenant(x *rest.Request, what string) error {
	tenant := x.R.URL.Query().Get("tenant_id")
	if tenant == "" || tenant == x.Caller.Tenant {
		return nil
	}
	if !auth.Identifier(tenant) {
		return rest.Invalid("tenant_id", auth.IdentifierRule)
	}
	if !x.Caller.May(auth.PermissionOperator) {
		return &rest.Problem{HTTP: http.StatusForbidden, Code: "AUTHZ_PERMISSION_DENIED", Message: "the " + what + " of another tenant need the permission " + auth.PermissionOperator}
	}
	as := *x.Caller
	as.Tenant = tenant
	x.Caller = &as
	return nil
}

func (h *Handlers) listTokens(x *rest.Request) error {
	if err := asTenant(x, "tokens"); err != nil {
		return err
	}
	return rest.Unary(x, &v1.ListTokensRequest{}, h.tokens.ListTokens, rest.Whole)
}

func (h *Handlers) revokeToken(x *rest.Request) error {
	if err := asTenant(x, "tokens"); err != nil {
		return err
	}
	request := &v1.RevokeTokenRequest{TokenId: x.ID()}
	if err := rest.Unary(x, request, h.tokens.RevokeToken,
		func(*v1.RevokeTokenResponse) proto.Message { return request }); err != nil {
		return err
	}
	h.issued.Forget()
	h.sessions.ForgetToken(request.GetTokenId())
	return nil
}
