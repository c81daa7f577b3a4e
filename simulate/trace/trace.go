// Package trace reads what clusters and their jobs were like: inventories of nodes and lists of jobs, as CSV files.
//
// Two formats are known, each with the columns that its authors published; other columns are ignored, and their order
// does not matter. openb is Alibaba's cluster-trace-gpu-v2023, nodes and pods. philly is Microsoft's Philly trace as
// derived by the authors of Chronus, jobs only.
package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Job is a job of a trace.
type Job struct {
	ID   string
	User string
	// Shape is what it needs. CPUs count in thousandths where the trace does: so they do in the inventory of that format.
	Shape  work.Shape
	Submit time.Duration // from the beginning of the trace
	Takes  time.Duration
	// Limit is after what time its user would have it stopped; 0: no limit is told.
	Limit time.Duration

	// What follows is known of the jobs of a cluster, and not told by the files. Without a tenant a job belongs to the one
	// tenant and the one queue of a trace, has the priority of those that do not say, and may be preempted.
	Tenant, Queue, Name string
	Priority            uint8
	Preemptible         bool
	// Array names the array that it is an element of, of which MaxParallel may run at a time; 0: all.
	Array       string
	MaxParallel uint32
	// After are the jobs that it waits for.
	After []string
}

// Node makes a node of an inventory.
func Node(id string, gpus int, model string, cpus, memMB uint32) (*work.Node, error) {
	if gpus < 0 || gpus > work.MaxGPUs {
		return nil, fmt.Errorf("node %q has %d GPUs: 0 to %d can be simulated", id, gpus, work.MaxGPUs)
	}
	n := &work.Node{ID: id, Hostname: id, State: v1.NodeState_READY, CPUs: cpus, MemMB: memMB}
	for i := range gpus {
		n.GPUs = append(n.GPUs, work.GPU{Index: uint8(i), Model: model, Type: model, Health: v1.GpuHealth_HEALTHY, Simulated: true})
	}
	return n, nil
}

// ErrEmpty is a file without a line after its header.
var ErrEmpty = errors.New("the file has no line after its header")

// table reads a CSV file by the names of its columns. The first error sticks.
type table struct {
	reader *csv.Reader
	column map[string]int
	row    []string
	line   int
	err    error
}

func newTable(r io.Reader, columns ...string) (*table, error) {
	t := &table{reader: csv.NewReader(r), column: map[string]int{}, line: 1}
	t.reader.ReuseRecord = true
	header, err := t.reader.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	for i, name := range header {
		t.column[strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))] = i
	}
	for _, name := range columns {
		if _, ok := t.column[name]; !ok {
			return nil, fmt.Errorf("the column %q is missing: this format has %s", name, strings.Join(columns, ", "))
		}
	}
	return t, nil
}

// next moves to the next line; false: there is none, or an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	row, err := t.reader.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	t.row, t.err = row, err
	t.line++
	return err == nil
}

// text is a column's text; empty where the file does not have the column.
func (t *table) text(column string) string {
	if i, ok := t.column[column]; ok && i < len(t.row) {
		return strings.TrimSpace(t.row[i])
	}
	return ""
}

// number is a whole number from least to most.
func (t *table) number(column string, least, most int64) int64 {
	n, err := strconv.ParseInt(t.text(column), 10, 64)
	if t.err == nil && (err != nil || n < least || n > most) {
		t.err = fmt.Errorf("line %d: %s is %q: it must be a whole number from %d to %d", t.line, column, t.text(column), least, most)
	}
	return n
}
