// Package joblist finds the jobs of one page of a list: jobs of one tenant, filtered and sorted.
//
// Guarantees. The pages of a query show every matching job once, in order, even if jobs come and go in between; a job
// that changes may move. A page token is valid for its own query only. A page examines a bounded number of jobs: it may
// end early, and its token continues there.
//
// Not guaranteed: the exact number of matches, if Page.Exact is false.
package joblist

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Page sizes of a list.
const (
	defaultPage = 20
	maxPage     = 100
)

// order is how a list is sorted.
type order string

const (
	byAge      order = "created_at"
	byAgeDesc  order = "created_at desc"
	byPriority order = "priority desc"
)

// Query is a parsed ListJobsRequest.
type Query struct {
	filter status.Filter
	queue  string
	// labels are the requested labels without that of evaluations, which is indexed.
	labels      [][2]string
	evaluations bool
	size        int
	order       order
	after       pageMark
	scan        int // the largest number of jobs that a page examines
	// Also is one more condition on a job.
	Also func(*work.Job) bool
	// sum distinguishes page tokens of this query from those of others.
	sum uint64
}

// pageMark is the end of the previous page: the last job that was examined, and the number of jobs that were found up
// to it. The zero pageMark is the beginning.
type pageMark struct {
	id       ident.Job
	priority uint8
	found    int
}

// Parse parses a request. of names the list, and distinguishes its page tokens from those of other lists.
func Parse(req *v1.ListJobsRequest, of string) (*Query, error) {
	q := &Query{filter: status.NewFilter(req.GetStatus()...), queue: req.GetQueue(), size: int(req.GetPageSize()), scan: maxScanned}
	switch {
	case q.size == 0:
		q.size = defaultPage
	case q.size < 0 || q.size > maxPage:
		return nil, call.Bad("page_size", "%d must lie between 1 and %d", q.size, maxPage)
	}
	switch o := order(strings.Join(strings.Fields(req.GetOrderBy()), " ")); o {
	case "", byAgeDesc:
		q.order = byAgeDesc
	case byAge, byAge + " asc":
		q.order = byAge
	case byPriority:
		q.order = o
	default:
		return nil, call.Bad("order_by", "%q is none of \"created_at\", \"created_at desc\", \"priority desc\"", req.GetOrderBy())
	}
	for _, text := range req.GetLabel() {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, call.Bad("label", "%q must be key=value", text)
		}
		if k == work.EvaluationLabel && v == work.EvaluationValue {
			q.evaluations = true
			continue
		}
		q.labels = append(q.labels, [2]string{k, v})
	}
	q.sum = xxhash.Sum64String(fmt.Sprintf("%q %q %q %q %v", of, q.order, q.queue, req.GetLabel(), req.GetStatus()))
	return q, q.parseToken(req.GetPageToken())
}

// token returns the encoded form of "sum.priority.id.found" for the end of a page.
func (q *Query) token(m pageMark) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%x.%d.%d.%d", q.sum, m.priority, uint64(m.id), m.found))
}

func (q *Query) parseToken(text string) error {
	if text == "" {
		return nil
	}
	wrong := call.Bad("page_token", "is not one that this list gave: start again without it, and leave filters and order as they are")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return wrong
	}
	parts := strings.Split(string(raw), ".")
	if len(parts) == 3 { // a token of a version without found
		parts = append(parts, "0")
	}
	if len(parts) != 4 || parts[0] != strconv.FormatUint(q.sum, 16) {
		return wrong
	}
	priority, err1 := strconv.ParseUint(parts[1], 10, 8)
	id, err2 := strconv.ParseUint(parts[2], 10, 64)
	found, err3 := strconv.ParseUint(parts[3], 10, 31)
	if err1 != nil || err2 != nil || err3 != nil || id == 0 {
		return wrong
	}
	q.after = pageMark{ident.Job(id), uint8(priority), int(found)}
	return nil
}
