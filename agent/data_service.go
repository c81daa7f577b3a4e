package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/mindcoordinator/mind/agent/datacache"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// maxProbed bounds the sources of one ProbeData, and probes how many are looked at together.
// probeTime bounds them all: whoever asks waits a little longer, and hears then which source did not answer.
const (
	maxProbed = 100
	probes    = 8
	probeTime = 15 * time.Second
)

// ProbeData looks whether this node could fetch sources.
func (s *taskService) ProbeData(ctx context.Context, req *v1.ProbeDataRequest) (*v1.ProbeDataResponse, error) {
	sources := req.GetSources()
	if len(sources) > maxProbed {
		return nil, status.Errorf(codes.InvalidArgument, "%d sources; at most %d are looked at together", len(sources), maxProbed)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out := &v1.ProbeDataResponse{Sources: make([]*v1.DataSourceCheck, len(sources))}
	credentials := credentialsOf(req.GetCredentials(), nil)
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

func (s *taskService) probe(ctx context.Context, tenant, path string, credentials datacache.Credentials) *v1.DataSourceCheck {
	out := &v1.DataSourceCheck{Path: path}
	found, err := s.agent.data.Probe(ctx, tenant, path, credentials)
	switch {
	case err != nil && ctx.Err() != nil:
		out.Message = "node " + s.agent.cfg.NodeID + " did not find out in time: try again, or look whether the source answers"
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

// ReadDataCache tells what the node keeps of a tenant.
func (s *taskService) ReadDataCache(_ context.Context, req *v1.ReadDataCacheRequest) (*v1.ReadDataCacheResponse, error) {
	if req.GetTenantId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no tenant")
	}
	entries, used := s.agent.data.Entries(req.GetTenantId())
	out := &v1.NodeDataCache{NodeId: s.agent.cfg.NodeID, CapacityBytes: s.agent.data.Capacity(), UsedBytes: used}
	for _, e := range entries {
		out.Entries = append(out.Entries, &v1.DataCacheEntry{
			Path: e.Path, Digest: e.Digest, SizeBytes: e.Size, Files: int32(e.Files), FetchedAt: timestamppb.New(e.FetchedAt),
			LastUsedAt: timestamppb.New(e.LastUsed), InUse: e.InUse,
		})
	}
	return &v1.ReadDataCacheResponse{Cache: out}, nil
}

// dataCollector reads the counts of the data cache when it is asked.
type dataCollector struct{ cache *datacache.Cache }

var (
	descDataUsed     = prometheus.NewDesc("mind_data_cache_used_bytes", "What the data cache holds and has reserved.", nil, nil)
	descDataCapacity = prometheus.NewDesc("mind_data_cache_capacity_bytes", "Bound of the data cache.", nil, nil)
	descDataHits     = prometheus.NewDesc("mind_data_cache_hits_total", "Sources that the data cache had.", nil, nil)
	descDataMisses   = prometheus.NewDesc("mind_data_cache_misses_total", "Sources that had to be fetched.", nil, nil)
	descDataEvicted  = prometheus.NewDesc("mind_data_cache_evictions_total", "Sources that made way for others.", nil, nil)
	descDataDamaged  = prometheus.NewDesc("mind_data_cache_damaged_total", "Sources whose files were not what they had been.", nil, nil)
	descDataFetched  = prometheus.NewDesc("mind_data_cache_fetched_bytes_total", "Bytes fetched from sources.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c dataCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDataUsed, descDataCapacity, descDataHits, descDataMisses, descDataEvicted, descDataDamaged, descDataFetched} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c dataCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.cache.Stats()
	for d, value := range map[*prometheus.Desc]int64{descDataUsed: s.UsedBytes, descDataCapacity: s.CapacityBytes} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	for d, value := range map[*prometheus.Desc]int64{
		descDataHits: s.Hits, descDataMisses: s.Misses, descDataEvicted: s.Evictions, descDataDamaged: s.Damaged, descDataFetched: s.FetchedBytes,
	} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
}
