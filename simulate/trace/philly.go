package trace

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm/work"
)

// perNode is the number of GPUs of the nodes in Philly. A larger job is a gang on whole nodes.
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

// WritePhilly writes jobs in the format that [Philly] reads, and returns how many it wrote, and how many it left out
// because they need no whole GPU.
func WritePhilly(w io.Writer, jobs []Job) (written, left int, err error) {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"job_id", "user", "num_gpu", "submit_time", "duration"}) // Flush reports the error.
	minutes := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Minute), 10) }
	for i := range jobs {
		j := &jobs[i]
		gpus := max(1, int(j.Shape.Nodes)) * int(j.Shape.GPUs)
		if gpus == 0 {
			left++
			continue
		}
		user := j.User
		if j.Tenant != "" {
			user = j.Tenant + "/" + j.User
		}
		_ = out.Write([]string{j.ID, user, strconv.Itoa(gpus), minutes(j.Submit), minutes(j.Takes + time.Minute - 1)})
		written++
	}
	out.Flush()
	return written, left, out.Error()
}
