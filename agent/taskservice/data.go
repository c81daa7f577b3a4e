package taskservice

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/agent/datacache/sources"
	"github.com/mindcoordinator/mind/agent/inputs"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxProbed limits the sources of one ProbeData, and probes how many are checked at the same time. probeTime limits the
// whole call: callers wait a little longer, so that they learn which source did not answer.
const (
	maxProbed = 100
	probes    = 8
	probeTime = 15 * time.Second
)

// ProbeData checks whether this node could fetch sources.
func (s *Service) ProbeData(ctx context.Context, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
	sources := req.GetSources()
	if len(sources) > maxProbed {
		return nil, status.Errorf(codes.InvalidArgument, "%d sources; at most %d can be checked in one call", len(sources), maxProbed)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out := &v1.ProbeDataResponse{Sources: make([]*v1.DataSourceCheck, len(sources))}
	credentials := inputs.CredentialsOf(req.GetCredentials(), nil)
	slots, done := make(chan struct{}, probes), make(chan struct{})
	for i, source := range sources {
		go func() {
			slots <- struct{}{}
			out.Sources[i] = s.probe(ctx, req.GetTenantId(), source.GetPath(), credentials)
			<-slots
			done <- struct{}{}
		}()
	}
	for range sources {
		<-done
	}
	return out, nil
}

func (s *Service) probe(ctx context.Context, tenant, path string, credentials sources.Credentials) *v1.DataSourceCheck {
	out := &v1.DataSourceCheck{Path: path}
	found, err := s.Cache.Probe(ctx, tenant, path, credentials)
	switch {
	case err != nil && ctx.Err() != nil:
		out.Message = "node " + s.Node + " could not check it in time: try again, or check whether the source answers"
	case err != nil:
		out.Message = err.Error()
	default:
		out.Valid, out.Cached = true, found.Cached
		if found.Files >= 0 {
			out.Files = proto.Int32(int32(found.Files))
		}
		if found.Size >= 0 {
			out.SizeBytes = proto.Int64(found.Size)
		}
	}
	return out
}

// ReadDataCache lists the cached data sources of a tenant.
func (s *Service) ReadDataCache(_ context.Context, req *v1.ReadDataCacheRequest) (*v1.ReadDataCacheResponse, error) {
	if req.GetTenantId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no tenant")
	}
	entries, used := s.Cache.Entries(req.GetTenantId())
	out := &v1.NodeDataCache{NodeId: s.Node, CapacityBytes: s.Cache.Capacity(), UsedBytes: used}
	for _, e := range entries {
		out.Entries = append(out.Entries, &v1.DataCacheEntry{
			Path: e.Path, Digest: e.Digest, SizeBytes: e.Size, Files: int32(e.Files), FetchedAt: timestamppb.New(e.FetchedAt),
			LastUsedAt: timestamppb.New(e.LastUsed), InUse: e.InUse,
		})
	}
	return &v1.ReadDataCacheResponse{Cache: out}, nil
}
