// Package denials adds up calls that were denied before they came to the state, so that however many there are, the audit
// log takes a few records of them.
//
// Guarantees: a Tally holds at most MaxKeys denials that differ, at most MaxOfTenant of one tenant (those of whom nobody
// knows who they are count as one), and a few more that stand for the rest: nobody's flood hides who else was denied
// something, and none is left uncounted. Note takes the same short time whatever was noted before.
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

// Bounds of one tally.
const (
	MaxKeys     = 128
	MaxOfTenant = 32
	// MaxTold bounds what Take returns: what differs, and what stands for the rest.
	MaxTold = 256
	maxText = 256
)

// Denial is one call that was denied. What is equal in all but the request counts as the same.
type Denial struct {
	// Tenant, User and Token are empty where nobody knows who it was.
	Tenant, User, Token string
	// Outcome is UNAUTHENTICATED or PERMISSION_DENIED, Reason why in a word.
	Outcome, Reason string
	// What was called for, from which address.
	What, Address string
}

// Tally adds up. The zero value is ready, and may be used by many goroutines.
type Tally struct {
	mu     sync.Mutex
	counts map[Denial]*count
	// of counts the denials that differ, by tenant.
	of map[string]int
}

type count struct {
	times       int64
	first, last time.Time
	request     string
}

// Note counts a denial, and says whether it is the first of its kind since the last Take.
func (t *Tally) Note(d Denial, request string, now time.Time) bool {
	for _, text := range []*string{&d.Tenant, &d.User, &d.Token, &d.Outcome, &d.Reason, &d.What, &d.Address} {
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

// room is d where there is room for it, else what stands for it and others.
func (t *Tally) room(d Denial) Denial {
	if len(t.counts) < MaxKeys && t.of[d.Tenant] < MaxOfTenant {
		t.of[d.Tenant]++
		return d
	}
	rest := Denial{Outcome: d.Outcome, Reason: d.Reason}
	if t.of[d.Tenant] >= MaxOfTenant {
		rest.Tenant = d.Tenant
	}
	if len(t.counts) >= MaxTold-1 { // Reasons are few words; should they not be, one stands for them all.
		return Denial{Outcome: d.Outcome}
	}
	return rest
}

func (c *count) again(times int64, now time.Time) {
	c.times += times
	c.last = now
}

// Take returns what was noted since the last one, the most frequent first, and begins anew.
func (t *Tally) Take() []*v1.Denial {
	t.mu.Lock()
	counts := t.counts
	t.counts, t.of = nil, nil
	t.mu.Unlock()
	out := make([]*v1.Denial, 0, len(counts))
	for d, c := range counts {
		out = append(out, &v1.Denial{
			TenantId: d.Tenant, UserId: d.User, TokenId: d.Token, Outcome: d.Outcome, Reason: d.Reason, Object: d.What, Address: d.Address,
			Count: c.times, FirstAt: timestamppb.New(c.first), LastAt: timestamppb.New(c.last), RequestId: c.request,
		})
	}
	slices.SortFunc(out, func(a, b *v1.Denial) int {
		return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetFirstAt().AsTime().UnixNano(), b.GetFirstAt().AsTime().UnixNano()))
	})
	return out
}

// cut bounds a text, which may be a stranger's, and leaves out what no message may carry.
func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}
