package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

const (
	// useWithin limits how long `mind job` waits for the use of GPUs: it asks the job's nodes, and one of them may be
	// dead.
	useWithin = 2 * time.Second
	// maxUseIndex is the number of GPUs of a node whose use is requested, by name: an answer has at most 100 names.
	maxUseIndex = 32
	// maxUseRanks limits the ranks whose use is shown, maxUseRows the GPUs: with more GPUs, each rank has one row.
	maxUseRanks = 32
	maxUseRows  = 16
)

// gpuUse is the use of one GPU by an attempt. A value is nil if its sensor was not read.
type gpuUse struct {
	rank, gpu                  int
	utilization, memory, power *use
	shared                     bool
}

// use has the newest value of a sensor, and the mean and the maximum of the attempt.
type use struct{ last, mean, most float64 }

// printUse shows the use of GPUs by a job's current attempt.
func printUse(ctx context.Context, c *rest.Client, w io.Writer, j *Job) error {
	if j.Resources.GPUs == 0 && j.Resources.Share == 0 || j.StartedAt == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, useWithin)
	defer cancel()
	got, err := readUse(within, c, j)
	if err == nil && len(got) > 0 {
		fmt.Fprintf(w, "\nGPUs of attempt %d:\n", j.Attempt)
		return useTable(w, j, got)
	}
	if j.Over() || len(j.Nodes) == 0 {
		return nil
	}
	why := noUse(within, c, j)
	switch {
	case within.Err() != nil:
		why = fmt.Sprintf("its nodes did not answer within %s", useWithin)
	case err != nil:
		why = exit.OneLine(err)
	}
	_, err = fmt.Fprintln(w, "\nGPU use unknown: "+render.Printable(why))
	return err
}

// noUse returns the reason why there are no numbers about a running job's GPUs.
func noUse(ctx context.Context, c *rest.Client, j *Job) string {
	var node struct {
		GPUs []struct {
			Simulated bool `json:"simulated"`
		} `json:"gpus"`
	}
	_, err := c.Get(ctx, "/cluster/nodes/"+url.PathEscape(j.Nodes[0]), nil, &node)
	if err == nil && len(node.GPUs) > 0 && node.GPUs[0].Simulated {
		return "simulated GPUs have no sensors"
	}
	return "no sensor was read yet; agents read them every 5 s"
}

// useTable writes a row for each GPU, or for each rank.
func useTable(w io.Writer, j *Job, all []gpuUse) error {
	byRank := len(all) > maxUseRows
	t := render.NewTable(w, "RANK", "GPU", "BUSY (MEAN)", "MEMORY (PEAK)", "POWER (MEAN)")
	for len(all) > 0 {
		n := 1
		for byRank && n < len(all) && all[n].rank == all[0].rank {
			n++
		}
		some := all[:n]
		all = all[n:]
		gpu := strconv.Itoa(some[0].gpu)
		if byRank {
			gpu = fmt.Sprintf("all %d", n)
		}
		if some[0].shared {
			gpu += " (shared)"
		}
		busy, memory, power := "-", "-", "-"
		if u, of := sum(some, func(u gpuUse) *use { return u.utilization }); of > 0 {
			busy = fmt.Sprintf("%.0f%% (%.0f%%)", 100*u.last/of, 100*u.mean/of)
		}
		if u, of := sum(some, func(u gpuUse) *use { return u.memory }); of > 0 {
			memory = render.Size(int64(u.last)) + " (" + render.Size(int64(u.most)) + ")"
		}
		if u, of := sum(some, func(u gpuUse) *use { return u.power }); of > 0 {
			power = fmt.Sprintf("%.0f W (%.0f W)", u.last, u.mean)
		}
		t.Row(strconv.Itoa(some[0].rank), gpu, busy, memory, power)
	}
	if err := t.Flush(); err != nil || j.ranks() <= maxUseRanks {
		return err
	}
	_, err := fmt.Fprintf(w, "and ranks %d to %d; see `mind metrics --plot --rank RANK %s gpu0.utilization_ratio`\n", maxUseRanks, j.ranks()-1, j.ID)
	return err
}

// sum adds up the values of a sensor of some GPUs, and counts the GPUs that have it.
func sum(some []gpuUse, sensor func(gpuUse) *use) (total use, of float64) {
	for _, one := range some {
		if u := sensor(one); u != nil {
			total.last, total.mean, total.most, of = total.last+u.last, total.mean+u.mean, total.most+u.most, of+1
		}
	}
	return total, of
}

// ranks returns the number of tasks of the job.
func (j *Job) ranks() int { return max(int(j.Resources.Nodes), len(j.Nodes)) }

// readUse reads the use of GPUs from the series on their nodes, one point of each.
func readUse(ctx context.Context, c *rest.Client, j *Job) ([]gpuUse, error) {
	query := url.Values{"points": {"1"}, "attempt": {strconv.Itoa(j.Attempt)}}
	for gpu := range maxUseIndex {
		for _, sensor := range []string{"utilization_ratio", "memory_used_bytes", "power_watts"} {
			query.Add("name", fmt.Sprintf("gpu%d.%s", gpu, sensor))
		}
	}
	if j.ranks() > maxUseRanks {
		for rank := range maxUseRanks {
			query.Add("rank", strconv.Itoa(rank))
		}
	}
	var got jobSeries
	if _, err := c.Get(ctx, "/jobs/"+url.PathEscape(j.ID)+"/metrics/series", query, &got); err != nil {
		return nil, err
	}
	return useOf(got.Series), nil
}

// useOf sorts series by rank and GPU.
func useOf(all []metricSeries) (found []gpuUse) {
	for _, s := range all {
		name, sensor, _ := strings.Cut(s.Name, ".")
		gpu, err := strconv.Atoi(strings.TrimPrefix(name, "gpu"))
		if err != nil || len(s.Points) == 0 {
			continue
		}
		at := slices.IndexFunc(found, func(u gpuUse) bool { return u.rank == s.Rank && u.gpu == gpu })
		if at < 0 {
			at = len(found)
			found = append(found, gpuUse{rank: s.Rank, gpu: gpu})
		}
		u, p := &found[at], s.Points[0]
		u.shared = u.shared || s.Shared
		value := &use{last: p.Last, mean: p.Mean, most: p.Max}
		switch sensor {
		case "utilization_ratio":
			u.utilization = value
		case "memory_used_bytes":
			u.memory = value
		case "power_watts":
			u.power = value
		}
	}
	slices.SortFunc(found, func(a, b gpuUse) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.gpu, b.gpu)) })
	return found
}
