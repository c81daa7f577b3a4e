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
	"encoding/hex"
	"errors"
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

// Me stands for the caller among users.
const Me = "me"

// Query is a parsed ListJobsRequest.
type Query struct {
	filter status.Filter
	queue  string
	// labels are the requested labels without that of evaluations, which is indexed.
	labels      [][2]string
	evaluations bool
	// search is part of a name in lower case, or the beginning of an id. one is the job whose id it is; 0: it is no whole id.
	search string
	one    ident.Job
	user   string
	size   int
	order  order
	// sort has the key of an order that no index has; nil: an index has it.
	sort  *sorting
	after pageMark
	scan  int // the largest number of jobs that a page examines
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
	// key is that of the job in an order that no index has.
	key string
}

// Parse parses a request of a user. of names the list, and distinguishes its page tokens from those of other lists.
func Parse(req *v1.ListJobsRequest, of, caller string) (*Query, error) {
	q := &Query{
		filter: status.NewFilter(req.GetStatus()...), queue: req.GetQueue(), size: int(req.GetPageSize()), scan: maxScanned,
		search: strings.ToLower(req.GetSearch()), user: req.GetUser(),
	}
	if q.user == Me {
		if q.user = caller; caller == "" {
			return nil, call.Bad("user", "your token names no user: say which one")
		}
	}
	if id, ok := ident.ParseJob(q.search); ok {
		q.one = id
	}
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
		if q.sort = sortings[o]; q.sort == nil {
			return nil, call.Bad("order_by", "%q is none of %s", req.GetOrderBy(), orders)
		}
		q.order = o
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
	text := fmt.Sprintf("%q %q %q %q %v", of, q.order, q.queue, req.GetLabel(), req.GetStatus())
	if q.search != "" || q.user != "" {
		text += fmt.Sprintf(" %q %q", q.search, q.user)
	}
	q.sum = xxhash.Sum64String(text)
	return q, q.parseToken(req.GetPageToken())
}

// token returns the encoded form of "sum.priority.id.found" for the end of a page, with ".key" in an order that no index has.
func (q *Query) token(m pageMark) string {
	text := fmt.Appendf(nil, "%x.%d.%d.%d", q.sum, m.priority, uint64(m.id), m.found)
	if q.sort != nil {
		text = fmt.Appendf(text, ".%x", m.key)
	}
	return base64.RawURLEncoding.EncodeToString(text)
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
	if q.sort == nil {
		parts = append(parts, "")
	}
	if len(parts) != 5 || parts[0] != strconv.FormatUint(q.sum, 16) {
		return wrong
	}
	priority, err1 := strconv.ParseUint(parts[1], 10, 8)
	id, err2 := strconv.ParseUint(parts[2], 10, 64)
	found, err3 := strconv.ParseUint(parts[3], 10, 31)
	key, err4 := hex.DecodeString(parts[4])
	if err := errors.Join(err1, err2, err3, err4); err != nil || id == 0 {
		return wrong
	}
	q.after = pageMark{ident.Job(id), uint8(priority), int(found), string(key)}
	return nil
}
