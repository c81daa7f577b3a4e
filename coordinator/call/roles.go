package call

import (
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/pki"
)

// MayCall checks the role in a caller's certificate against the protos' rule for the method.
func MayCall(who pki.Identity, full string) error {
	if !who.Is(methods.Of(full).Callers...) {
		return grpcstatus.Errorf(codes.PermissionDenied, "the certificate has the role %s, which may not call %s", who, Method(full))
	}
	return nil
}

// Method returns the last part of a full method name.
func Method(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
