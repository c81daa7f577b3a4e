package whatif

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/typed"
)

// key is one of the values that may be supposed. read stores a value in a change; its error says what the value must
// be.
type key struct {
	name string
	read func(c *Change, value string) error
}

var topologies = map[string]uint8{"any": work.TopologyAny, "nvlink": work.TopologyNVLink, "single_node": work.TopologySingleNode}

// MaxSupposed is the number of values that may be supposed at a time.
const MaxSupposed = 32

func keys() []key {
	return []key{
		{"gpus", func(c *Change, v string) (err error) { c.GPUs, err = number[int](v, 0, 1<<20); return err }},
		{"nodes", func(c *Change, v string) (err error) { c.Nodes, err = number[int](v, 1, math.MaxUint16); return err }},
		{"gpu_fraction", readFraction},
		{"gpu_type", func(c *Change, v string) error { c.GPUType = text(work.CanonicalGPUType(v)); return nil }},
		{"gpu_memory_mb", func(c *Change, v string) (err error) {
			c.GPUMemMB, err = number[uint32](v, 0, math.MaxInt32)
			return err
		}},
		{"cpus", func(c *Change, v string) (err error) { c.CPUs, err = number[uint32](v, 0, math.MaxInt32); return err }},
		{"memory_mb", func(c *Change, v string) (err error) { c.MemMB, err = number[uint32](v, 0, math.MaxInt32); return err }},
		{"selector", readSelector},
		{"topology", func(c *Change, v string) error {
			topology, ok := topologies[v]
			if !ok {
				return fmt.Errorf("must be any, nvlink or single_node")
			}
			c.Topology = &topology
			return nil
		}},
		{"queue", func(c *Change, v string) error { c.Queue = text(v); return nil }},
		{"priority", func(c *Change, v string) (err error) { c.Priority, err = number[uint8](v, 0, 10); return err }},
		{"max_runtime", readMaxRuntime},
		{"held", func(c *Change, v string) error {
			if v != "false" {
				return fmt.Errorf("must be false: a job is held by its not_before, and by the jobs that it depends on")
			}
			c.Released = true
			return nil
		}},
		{"quota.max_gpus", func(c *Change, v string) (err error) { c.QuotaGPUs, err = readLimit(v); return err }},
		{"quota.max_running_jobs", func(c *Change, v string) (err error) { c.QuotaRunning, err = readLimit(v); return err }},
		{"queue.max_gpus", func(c *Change, v string) error {
			// With numbers, repeated questions would reveal the GPUs that other tenants hold.
			if v != none {
				return fmt.Errorf("must be none")
			}
			var err error
			c.QueueGPUs, err = readLimit(v)
			return err
		}},
		{"quota.max_gpus_by_type", readTypes},
		{"quota.max_gpu_hours", func(c *Change, v string) (err error) { c.QuotaHours, err = readLimit(v); return err }},
		{"queue.max_gpus_by_type", only(none, func(c *Change) { c.NoQueueTypes = true })},
		{"maintenance", only(none, func(c *Change) { c.NoMaintenance = true })},
		{"reservations", only(none, func(c *Change) { c.NoReservations = true })},
		{"protection", only(none, func(c *Change) { c.NoProtection = true })},
		{"cancel", func(c *Change, v string) error {
			id, ok := ident.ParseJob(v)
			if !ok {
				return fmt.Errorf("must be the id of a job")
			}
			c.Cancel = append(c.Cancel, id)
			return nil
		}},
	}
}

// Keys returns the names of the values that may be supposed.
func Keys() (names []string) {
	for _, k := range keys() {
		names = append(names, k.name)
	}
	return names
}

// Parse reads a change from texts of the form key=value. The error names the text and what is wrong with it.
func Parse(texts []string) (Change, error) {
	var c Change
	if len(texts) > MaxSupposed {
		return c, fmt.Errorf("%d are too many: at most %d", len(texts), MaxSupposed)
	}
	known := keys()
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		at := slices.IndexFunc(known, func(k key) bool { return k.name == name })
		if !ok || at < 0 {
			return c, fmt.Errorf("%q is not KEY=VALUE with one of the keys %s", t, strings.Join(Keys(), ", "))
		}
		if err := known[at].read(&c, value); err != nil {
			return c, fmt.Errorf("%q: %s %w", t, name, err)
		}
	}
	return c, nil
}

func text(s string) *string { return &s }

func number[T int | uint32 | uint8](value string, from, to int) (*T, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < from || n > to {
		return nil, fmt.Errorf("must be a number between %d and %d", from, to)
	}
	out := T(n)
	return &out, nil
}

// none is the value that removes a limit.
const none = "none"

func readLimit(value string) (*int32, error) {
	if value == none {
		limit := int32(-1)
		return &limit, nil
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("must be a number, or none")
	}
	limit := int32(n)
	return &limit, nil
}

// only reads a key that has one value.
func only(value string, set func(c *Change)) func(c *Change, v string) error {
	return func(c *Change, v string) error {
		if v != value {
			return fmt.Errorf("must be %s", value)
		}
		set(c)
		return nil
	}
}

// readTypes reads limits such as H100=16,A100=4. They replace all limits by type.
func readTypes(c *Change, value string) error {
	limits := map[string]int32{}
	if value != none {
		for pair := range strings.SplitSeq(value, ",") {
			name, number, ok := strings.Cut(pair, "=")
			n, err := strconv.ParseInt(number, 10, 32)
			if !ok || err != nil || n < 0 || name == "" {
				return fmt.Errorf("must be types and numbers of GPUs, such as H100=16,A100=4, or none")
			}
			limits[name] = int32(n)
		}
	}
	all := typed.From(limits)
	if !all.Valid() {
		return fmt.Errorf("must name each type once, at most %d of them", typed.MaxLimits)
	}
	c.QuotaTypes = &all
	return nil
}

func readFraction(c *Change, value string) error {
	f, err := strconv.ParseFloat(value, 64)
	milli := int(math.Round(f * 1000))
	if err != nil || milli < 1 || milli > 999 {
		return fmt.Errorf("must be a part of one GPU, between 0.001 and 0.999")
	}
	c.Fraction = &milli
	return nil
}

func readSelector(c *Change, value string) error {
	labels := map[string]string{}
	if value != "" {
		for pair := range strings.SplitSeq(value, ",") {
			k, v, ok := strings.Cut(pair, "=")
			if !ok || k == "" {
				return fmt.Errorf("must be labels LABEL=VALUE with commas between them, or nothing")
			}
			labels[k] = v
		}
	}
	c.Selector = text(work.CanonicalSelector(labels))
	return nil
}

func readMaxRuntime(c *Change, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		seconds, wrong := strconv.ParseInt(value, 10, 32)
		d, err = time.Duration(seconds)*time.Second, wrong
	}
	if err != nil || d < 0 {
		return fmt.Errorf("must be a duration such as 2h, or seconds; 0 is no limit")
	}
	c.MaxRuntime = &d
	return nil
}
