package agent

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/pki"
)

// rolesOf says who may call what.
var rolesOf = map[string]string{
	v1.TaskService_ServiceDesc.ServiceName: pki.RoleCoordinator,
	v1.PeerService_ServiceDesc.ServiceName: pki.RoleAgent,
}

// admit refuses a call of somebody who has another role than the service is for.
func (a *agent) admit(ctx context.Context, method string) error {
	if a.serverTLS == nil {
		return nil
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	role, served := rolesOf[service]
	if who, known := pki.PeerIdentity(ctx); !served || !known || !who.Is(role) {
		return status.Errorf(codes.PermissionDenied, "%s is not for %s", service, who)
	}
	return nil
}

// gates are put before every call.
func (a *agent) gates() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := a.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := a.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handler(srv, stream)
		}),
	}
}

func (a *agent) coordinatorCredentials() credentials.TransportCredentials {
	if a.clientTLS == nil {
		return insecure.NewCredentials()
	}
	return a.clientTLS.Credentials()
}

// peerCredentials make sure that it is the peer that answers: the word of another
// would let tasks run on that may be replaced.
func (a *agent) peerCredentials(node string) credentials.TransportCredentials {
	if a.peerTLS == nil {
		return insecure.NewCredentials()
	}
	return a.peerTLS.Named(node).Credentials()
}
