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

// authorize refuses calls that the caller's certificate does not allow.
func (a *agent) authorize(ctx context.Context, method string) error {
	if a.serverTLS == nil {
		return nil
	}
	if who, known := pki.PeerIdentity(ctx); !known || !who.Is(methods.Of(method).Callers...) {
		service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		return status.Errorf(codes.PermissionDenied, "%s is not allowed for %s", service, who)
	}
	return nil
}

// interceptors authorize every call.
func (a *agent) interceptors() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := a.authorize(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if err := a.authorize(stream.Context(), info.FullMethod); err != nil {
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

// peerCredentials verify that the peer itself answers: another node's answer could let tasks run that may have been
// replaced.
func (a *agent) peerCredentials(node string) credentials.TransportCredentials {
	if a.peerTLS == nil {
		return insecure.NewCredentials()
	}
	return a.peerTLS.Named(node).Credentials()
}
