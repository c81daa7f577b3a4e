package agent

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/methods"
	"github.com/mindcoordinator/mind/pki"
)

// admit refuses a call that the caller's certificate may not make.
func (a *agent) admit(ctx context.Context, method string) error {
	if a.serverTLS == nil {
		return nil
	}
	if who, known := pki.PeerIdentity(ctx); !known || !who.Is(methods.Of(method).Callers...) {
		service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
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
