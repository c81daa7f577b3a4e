// Package denials counts calls that were denied before they reached the state, so that the audit log needs only a few
// records for many of them.
//
// Guarantees: a Tally holds at most MaxKeys different denials, at most MaxOfTenant of one tenant (unauthenticated callers
// count as one tenant), and a few more that stand for the rest. So a flood of denials from one tenant does not hide those
// of others, and every denial is counted. Note takes constant time.
//
// Gateways, coordinators and agents report their denials with Tally.Report.
package denials

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Limits of one tally.
const (
	MaxKeys     = 128
	MaxOfTenant = 32
	// MaxTold limits what Take returns: the different denials, and those that stand for the rest.
	MaxTold = 256
	maxText = 256
)

// Denial is one denied call. Denials that differ only in the request are counted together.
type Denial struct {
	// Tenant, User and Token are empty for an unauthenticated caller.
	Tenant, User, Token string
	// Outcome is UNAUTHENTICATED or PERMISSION_DENIED; Reason is a one-word cause.
	Outcome, Reason string
	// The method or object that was denied is in What. Address is the address of the caller; from an agent, the id of
	// its node.
	What, Address string
	// Job is the job to whose process an agent denied something; empty: a call was denied.
	Job string
}

// Tally counts denials. The zero value is ready to use. Many goroutines may use it at a time.
type Tally struct {
	mu     sync.Mutex
	counts map[Denial]*count
	// of counts the different denials by tenant.
	of map[string]int
}

type count struct {
	times       int64
	first, last time.Time
	request     string
}

// Note counts a denial, and reports whether it is the first of its kind since the last Take.
func (t *Tally) Note(d Denial, request string, now time.Time) bool {
	for _, text := range []*string{&d.Tenant, &d.User, &d.Token, &d.Outcome, &d.Reason, &d.What, &d.Address, &d.Job} {
		*text = cut(*text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts, t.of = map[Denial]*count{}, map[string]int{}
	}
	c := t.counts[d]
	if c == nil {
		if d = t.room(d); t.counts[d] != nil {
			t.counts[d].again(1, now)
			return false
		}
		c = &count{first: now, request: cut(request)}
		t.counts[d] = c
	}
	c.again(1, now)
	return c.times == 1
}

// room returns d if there is room for it, and otherwise a denial that stands for it and others.
func (t *Tally) room(d Denial) Denial {
	if len(t.counts) < MaxKeys && t.of[d.Tenant] < MaxOfTenant {
		t.of[d.Tenant]++
		return d
	}
	rest := Denial{Outcome: d.Outcome, Reason: d.Reason}
	if t.of[d.Tenant] >= MaxOfTenant {
		rest.Tenant = d.Tenant
	}
	if len(t.counts) >= MaxTold-1 { // too many different reasons
		return Denial{Outcome: d.Outcome}
	}
	return rest
}

func (c *count) again(times int64, now time.Time) {
	c.times += times
	c.last = now
}

// Take returns the denials since the last Take, the most frequent first, and resets the tally.
func (t *Tally) Take() []*v1.Denial {
	t.mu.Lock()
	counts := t.counts
	t.counts, t.of = nil, nil
	t.mu.Unlock()
	out := make([]*v1.Denial, 0, len(counts))
	for d, c := range counts {
		out = append(out, &v1.Denial{
			TenantId: d.Tenant, UserId: d.User, TokenId: d.Token, Outcome: d.Outcome, Reason: d.Reason, Object: d.What, Address: d.Address, JobId: d.Job,
			Count: c.times, FirstAt: timestamppb.New(c.first), LastAt: timestamppb.New(c.last), RequestId: c.request,
		})
	}
	slices.SortFunc(out, func(a, b *v1.Denial) int {
		return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetFirstAt().AsTime().UnixNano(), b.GetFirstAt().AsTime().UnixNano()))
	})
	return out
}

// cut limits the length of a text, which may come from a stranger, and removes bytes that are not valid in a message.
func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}
