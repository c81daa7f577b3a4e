package coordinator

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/fsm"
)

// Page sizes of a list.
const (
	defaultPage = 20
	maxPage     = 100
)

// ListJobs lists the jobs of the caller's tenant. The page token pins the order and the filter: it names the last job
// that was seen, so that jobs which come and go in between neither repeat nor hide others.
func (s *server) ListJobs(ctx context.Context, req *v1.ListJobsRequest) (*v1.ListJobsResponse, error) {
	q, err := newListQuery(req, "jobs")
	if err != nil {
		return nil, err
	}
	v, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	jobs, total, more := q.run(v, callOf(ctx).tenant)
	out := &v1.ListJobsResponse{TotalCount: int32(total)}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, jobView(v, j, false))
	}
	if more {
		out.NextPageToken = q.token(jobs[len(jobs)-1])
	}
	return out, nil
}

// order is how a list is sorted.
type order string

const (
	byAge      order = "created_at"
	byAgeDesc  order = "created_at desc"
	byPriority order = "priority desc"
)

// listQuery is a ListJobs, understood.
type listQuery struct {
	filter status.Filter
	queue  string
	labels [][2]string
	size   int
	order  order
	after  *pageMark
	// also is one more thing that must be true of a job.
	also func(*fsm.Job) bool
	// sum tells a page token of this query from one of another.
	sum uint64
}

// pageMark is the last job of the page before.
type pageMark struct {
	id       fsm.JobID
	priority uint8
}

// newListQuery understands a request; of says what is listed, and tells its page tokens from others.
func newListQuery(req *v1.ListJobsRequest, of string) (*listQuery, error) {
	q := &listQuery{filter: status.NewFilter(req.GetStatus()...), queue: req.GetQueue(), size: int(req.GetPageSize())}
	switch {
	case q.size == 0:
		q.size = defaultPage
	case q.size < 0 || q.size > maxPage:
		return nil, bad("page_size", "%d must lie between 1 and %d", q.size, maxPage)
	}
	switch o := order(strings.Join(strings.Fields(req.GetOrderBy()), " ")); o {
	case "", byAgeDesc:
		q.order = byAgeDesc
	case byAge, byAge + " asc":
		q.order = byAge
	case byPriority:
		q.order = o
	default:
		return nil, bad("order_by", "%q is none of \"created_at\", \"created_at desc\", \"priority desc\"", req.GetOrderBy())
	}
	for _, text := range req.GetLabel() {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return nil, bad("label", "%q must be key=value", text)
		}
		q.labels = append(q.labels, [2]string{k, v})
	}
	q.sum = xxhash.Sum64String(fmt.Sprintf("%q %q %q %q %v", of, q.order, q.queue, req.GetLabel(), req.GetStatus()))
	return q, q.parseToken(req.GetPageToken())
}

// token is "sum.priority.id" of the last job of a page, made opaque.
func (q *listQuery) token(last *fsm.Job) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%x.%d.%d", q.sum, last.Priority, uint64(last.ID)))
}

func (q *listQuery) parseToken(text string) error {
	if text == "" {
		return nil
	}
	wrong := bad("page_token", "is not one that this list gave: start again without it, and leave filters and order as they are")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return wrong
	}
	parts := strings.Split(string(raw), ".")
	if len(parts) != 3 || parts[0] != strconv.FormatUint(q.sum, 16) {
		return wrong
	}
	priority, err1 := strconv.ParseUint(parts[1], 10, 8)
	id, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || id == 0 {
		return wrong
	}
	q.after = &pageMark{fsm.JobID(id), uint8(priority)}
	return nil
}

func (q *listQuery) matches(v *fsm.View, j *fsm.Job) bool {
	if q.queue != "" && j.Queue != q.queue {
		return false
	}
	for _, l := range q.labels {
		if value, ok := j.Labels[l[0]]; !ok || value != l[1] {
			return false
		}
	}
	return q.filter.Match(j.State, phaseOf(j), considered(v, j)) && (q.also == nil || q.also(j))
}

// run returns a page, how many jobs match in all, and whether there is a page after it.
func (q *listQuery) run(v *fsm.View, tenant string) (page []*fsm.Job, total int, more bool) {
	if q.order == byPriority {
		return q.runSorted(v, tenant)
	}
	for j := range v.JobsOfTenant(tenant, q.order == byAgeDesc, 0) {
		if !q.matches(v, j) {
			continue
		}
		total++
		if q.after != nil && !q.follows(j) {
			continue
		}
		if len(page) == q.size {
			more = true
			continue
		}
		page = append(page, j)
	}
	return page, total, more
}

func (q *listQuery) follows(j *fsm.Job) bool {
	switch q.order {
	case byAgeDesc:
		return j.ID < q.after.id
	case byAge:
		return j.ID > q.after.id
	default:
		return j.Priority < q.after.priority || (j.Priority == q.after.priority && j.ID > q.after.id)
	}
}

// runSorted serves the order that no table keeps.
func (q *listQuery) runSorted(v *fsm.View, tenant string) (page []*fsm.Job, total int, more bool) {
	var all []*fsm.Job
	for j := range v.JobsOfTenant(tenant, false, 0) {
		if q.matches(v, j) {
			total++
			if q.after == nil || q.follows(j) {
				all = append(all, j)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *fsm.Job) int { return int(b.Priority) - int(a.Priority) })
	if len(all) > q.size {
		return all[:q.size], total, true
	}
	return all, total, false
}
