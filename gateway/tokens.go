package gateway

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
	"github.com/mindcoordinator/mind/gateway/wire"
)

func createToken(x *httpRequest) error {
	request := &v1.CreateTokenRequest{}
	if err := x.decodeToken(request); err != nil {
		return err
	}
	if err := x.mayCreate(request); err != nil {
		return err
	}
	// The token is created here and only its digest is sent on, so no other process knows it.
	token := auth.MintToken()
	digest := sha256.Sum256([]byte(token))
	request.Digest = digest[:]
	call, limit, err := x.prepare()
	if err != nil {
		return err
	}
	if request.TenantId != "" {
		call.Tenant = request.TenantId
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), limit)
	defer cancel()
	reply, err := x.server.tokens.CreateToken(client.WithCall(ctx, call), request)
	if err != nil {
		return err
	}
	t := reply.GetToken()
	x.ok(&v1.NewToken{
		Token: token, TokenId: t.GetTokenId(), Name: t.GetName(), TenantId: t.GetTenantId(), UserId: t.GetUserId(),
		Permissions: t.GetPermissions(), CreatedAt: t.GetCreatedAt(), ExpiresAt: t.GetExpiresAt(),
	})
	return nil
}

// decodeToken reads a request for a token. A lifetime of 0 is refused: a script that computed it would get a token that is
// good for ever.
func (x *httpRequest) decodeToken(request *v1.CreateTokenRequest) error {
	body, err := x.body()
	if err != nil {
		return err
	}
	defer release(body)
	faults, _ := wire.Decode(*body, request, "digest")
	var given struct {
		Seconds *json.Number `json:"expires_in_seconds"`
	}
	if len(faults) == 0 && request.ExpiresInSeconds == 0 && json.Unmarshal(*body, &given) == nil && given.Seconds != nil {
		faults = append(faults, wire.Fault{Field: "expires_in_seconds", Message: "must be 1 or more; leave it out for a token that is good until it is revoked"})
	}
	if len(faults) > 0 {
		return invalidBody(faults)
	}
	return nil
}

// mayCreate refuses to grant more than the caller has: another tenant, or a permission that the caller lacks, unless the
// caller is an operator.
func (x *httpRequest) mayCreate(request *v1.CreateTokenRequest) error {
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
		return invalidBody(faults)
	}
	operator := x.caller.May(auth.PermissionOperator)
	for _, p := range request.Permissions {
		if !operator && !x.caller.May(p) {
			return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: "only a caller with the permission " + p + " can grant it"}
		}
	}
	if request.TenantId != "" && request.TenantId != x.caller.Tenant && !operator {
		return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: "a token for another tenant needs the permission " + auth.PermissionOperator}
	}
	return nil
}

// asTenant lets an operator manage what belongs to the tenant in the query.
func asTenant(x *httpRequest, what string) error {
	tenant := x.r.URL.Query().Get("tenant_id")
	if tenant == "" || tenant == x.caller.Tenant {
		return nil
	}
	if !auth.Identifier(tenant) {
		return invalid("tenant_id", auth.IdentifierRule)
	}
	if !x.caller.May(auth.PermissionOperator) {
		return &problem{http: http.StatusForbidden, code: "AUTHZ_PERMISSION_DENIED", message: "the " + what + " of another tenant need the permission " + auth.PermissionOperator}
	}
	as := *x.caller
	as.Tenant = tenant
	x.caller = &as
	return nil
}

func listTokens(x *httpRequest) error {
	if err := asTenant(x, "tokens"); err != nil {
		return err
	}
	return unary(x, &v1.ListTokensRequest{}, x.server.tokens.ListTokens, whole)
}

func revokeToken(x *httpRequest) error {
	if err := asTenant(x, "tokens"); err != nil {
		return err
	}
	request := &v1.RevokeTokenRequest{TokenId: id(x)}
	if err := unary(x, request, x.server.tokens.RevokeToken,
		func(*v1.RevokeTokenResponse) proto.Message { return request }); err != nil {
		return err
	}
	x.server.issued.Forget()
	x.server.sessions.ForgetToken(request.GetTokenId())
	return nil
}
