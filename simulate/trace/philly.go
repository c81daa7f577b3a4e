package trace

import (
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm/work"
)

// perNode is the size of the nodes that Philly's jobs are for: larger ones take whole nodes, as a gang.
const perNode = 8

// Philly reads jobs: job_id, user, num_gpu, submit_time and duration, in minutes. Jobs without GPUs are left out.
func Philly(r io.Reader) ([]Job, error) {
	t, err := newTable(r, "job_id", "user", "num_gpu", "submit_time", "duration")
	if err != nil {
		return nil, err
	}
	var jobs []Job
	const ever = math.MaxInt32
	for t.next() {
		gpus := t.number("num_gpu", 0, perNode*math.MaxUint16)
		submit, takes := t.number("submit_time", 0, ever), t.number("duration", 0, ever)
		if gpus == 0 {
			continue
		}
		j := Job{
			ID: strings.Clone(t.text("job_id")), User: strings.Clone(t.text("user")), Shape: work.Shape{Nodes: 1, GPUs: uint16(min(gpus, perNode))},
			Submit: time.Duration(submit) * time.Minute, Takes: time.Duration(max(takes, 1)) * time.Minute,
		}
		if gpus > perNode {
			j.Shape.Nodes = uint16((gpus + perNode - 1) / perNode)
		}
		jobs = append(jobs, j)
	}
	if t.err == nil && len(jobs) == 0 {
		t.err = ErrEmpty
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return int(a.Submit/time.Minute) - int(b.Submit/time.Minute) })
	return jobs, t.err
}
