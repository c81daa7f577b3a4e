package gpus

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/device"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// sample reads the sensors for the next heartbeat, and for the metrics. Values that cannot be read are omitted.
func (g *Monitor) sample(ctx context.Context) {
	readings, err := g.inventory.Read(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readings = readings
	if err != nil {
		g.readings = nil
		g.log.Debug("cannot read the sensors of the GPUs", "error", err)
		return
	}
	g.samples = g.samples[:0:0] // the previous ones may be in flight
	for _, r := range readings {
		if at := indexOf(g.known, r.UUID); at >= 0 {
			g.samples = append(g.samples, sampleOf(g.known[at].GetIndex(), r))
		}
	}
	g.sampled++
}

func sampleOf(index int32, r device.Reading) *v1.GpuSample {
	s := &v1.GpuSample{Index: index}
	if r.Utilization >= 0 {
		s.UtilizationPercent = proto.Int32(int32(r.Utilization*100 + 0.5))
	}
	if r.MemoryUsed >= 0 {
		s.MemoryUsedMb = proto.Int32(int32(r.MemoryUsed / (1 << 20)))
	}
	return s
}

// SamplesSince returns the newest samples and their number, or nothing if the caller has these already.
func (g *Monitor) SamplesSince(told uint64) ([]*v1.GpuSample, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sampled == told {
		return nil, told
	}
	return g.samples, g.sampled
}

// lastReadings returns the readings of the last check, if the driver answered it.
func (g *Monitor) lastReadings() []device.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.readings
}

// Reading holds the sensor values of a GPU, with its index for leases.
type Reading struct {
	Index int32
	device.Reading
}

// Readings reads the sensors of all GPUs. Simulated GPUs have no readings.
func (g *Monitor) Readings(ctx context.Context) ([]Reading, error) {
	readings, err := g.inventory.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the sensors of the GPUs: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Reading, 0, len(readings))
	for _, r := range readings {
		if at := indexOf(g.known, r.UUID); at >= 0 && !g.known[at].GetSimulated() {
			out = append(out, Reading{Index: g.known[at].GetIndex(), Reading: r})
		}
	}
	return out, nil
}
