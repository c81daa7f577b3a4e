package inputs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/agent/datacache"
)

// Cache returns the data cache of the node.
func (in *Inputs) Cache() *datacache.Cache { return in.cache }

// Collector returns the metrics of the data cache.
func (in *Inputs) Collector() prometheus.Collector { return collector{in.cache} }

// collector collects the counts of the data cache.
type collector struct{ cache *datacache.Cache }

var (
	descDataUsed     = prometheus.NewDesc("mind_data_cache_used_bytes", "Size of the data cache, with reservations, in bytes.", nil, nil)
	descDataCapacity = prometheus.NewDesc("mind_data_cache_capacity_bytes", "Size limit of the data cache in bytes.", nil, nil)
	descDataHits     = prometheus.NewDesc("mind_data_cache_hits_total", "Sources found in the data cache.", nil, nil)
	descDataMisses   = prometheus.NewDesc("mind_data_cache_misses_total", "Sources that had to be fetched.", nil, nil)
	descDataEvicted  = prometheus.NewDesc("mind_data_cache_evictions_total", "Sources evicted from the data cache.", nil, nil)
	descDataDamaged  = prometheus.NewDesc("mind_data_cache_damaged_total", "Cached sources whose files were damaged.", nil, nil)
	descDataFetched  = prometheus.NewDesc("mind_data_cache_fetched_bytes_total", "Bytes fetched from sources.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDataUsed, descDataCapacity, descDataHits, descDataMisses, descDataEvicted, descDataDamaged, descDataFetched} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
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
