package gpus

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Collectors returns the metrics of the GPUs.
func (g *Monitor) Collectors() []prometheus.Collector {
	return []prometheus.Collector{newCollector(g), asideCollector{g}}
}

// collector collects the last values of the sensors. A scrape does not ask the driver, which may take long or not
// answer.
type collector struct {
	gpus  *Monitor
	descs [5]*prometheus.Desc
}

func newCollector(gpus *Monitor) *collector {
	labels := []string{"gpu", "uuid", "model"}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels, nil) }
	return &collector{gpus: gpus, descs: [5]*prometheus.Desc{
		desc("mind_gpu_utilization_ratio", "GPU utilization, 0 to 1."),
		desc("mind_gpu_memory_used_bytes", "Memory in use on the GPU."),
		desc("mind_gpu_temperature_celsius", "Temperature of the GPU."),
		desc("mind_gpu_power_watts", "Power drawn by the GPU."),
		desc("mind_gpu_xid_errors_total", "Xid errors since the agent started."),
	}}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect implements prometheus.Collector. It omits unknown values.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c.gpus.lastReadings() {
		for _, gpu := range c.gpus.Current() {
			if gpu.GetUuid() != r.UUID {
				continue
			}
			values := [5]float64{r.Utilization, r.MemoryUsed, r.Celsius, r.Watts, r.XidErrors}
			for i, value := range values {
				kind := prometheus.GaugeValue
				if i == 4 {
					kind = prometheus.CounterValue
				}
				if value >= 0 {
					out <- prometheus.MustNewConstMetric(c.descs[i], kind, value, fmt.Sprint(gpu.GetIndex()), r.UUID, gpu.GetModel())
				}
			}
		}
	}
}

// asideCollector reports which GPUs are quarantined.
type asideCollector struct{ gpus *Monitor }

var asideDesc = prometheus.NewDesc("mind_gpu_quarantined", "1 for a GPU that is not given to jobs: quarantined or vanished.", []string{"gpu", "uuid", "model"}, nil)

// Describe implements prometheus.Collector.
func (c asideCollector) Describe(descs chan<- *prometheus.Desc) { descs <- asideDesc }

// Collect implements prometheus.Collector. It does not ask the driver: the health of each GPU is known.
func (c asideCollector) Collect(out chan<- prometheus.Metric) {
	for _, gpu := range c.gpus.Current() {
		aside := 0.0
		if gpu.GetHealth() != v1.GpuHealth_HEALTHY {
			aside = 1
		}
		out <- prometheus.MustNewConstMetric(asideDesc, prometheus.GaugeValue, aside, strconv.Itoa(int(gpu.GetIndex())), gpu.GetUuid(), gpu.GetModel())
	}
}
