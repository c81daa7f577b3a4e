// Package trace reads and writes CSV files about real clusters: inventories of nodes and lists of jobs.
//
// There are two formats, each with the columns that its authors published. Other columns are ignored, and the order of
// columns does not matter. openb is Alibaba's cluster-trace-gpu-v2023, nodes and pods. philly is Microsoft's Philly
// trace as derived by the authors of Chronus, jobs only.
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
	// Shape has the resources that the job needs. In the format openb, CPUs are in thousandths, in jobs and in the
	// inventory.
	Shape  work.Shape
	Submit time.Duration // since the beginning of the trace
	Takes  time.Duration
	// Limit is the time after which its user would have it stopped; 0: unknown.
	Limit time.Duration

	// The fields below are set for jobs of a cluster's history, not for those of a file. A job without a tenant belongs
	// to the one tenant and the one queue of a trace, has the default priority, and may be preempted.
	Tenant, Queue, Name string
	Priority            uint8
	Preemptible         bool
	// Array is the id of the array that the job is an element of; empty: none. MaxParallel elements of the array may
	// run at a time; 0: all.
	Array       string
	MaxParallel uint32
	// After lists the ids of the jobs that it waits for.
	After []string
}

// Node returns a node of an inventory.
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

// ErrEmpty is returned for a file without a line after its header.
var ErrEmpty = errors.New("the file has no line after its header")

// table reads a CSV file by the names of its columns. It keeps the first error.
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

// next moves to the next line, and reports whether there is one and there was no error.
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

// text returns the text in a column; empty if the file does not have the column.
func (t *table) text(column string) string {
	if i, ok := t.column[column]; ok && i < len(t.row) {
		return strings.TrimSpace(t.row[i])
	}
	return ""
}

// number returns the whole number in a column, which must be from least to most.
func (t *table) number(column string, least, most int64) int64 {
	n, err := strconv.ParseInt(t.text(column), 10, 64)
	if t.err == nil && (err != nil || n < least || n > most) {
		t.err = fmt.Errorf("line %d: %s is %q: it must be a whole number from %d to %d", t.line, column, t.text(column), least, most)
	}
	return n
}
