package notify

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/fsm"
)

const (
	// inFlight bounds the requests that are under way. reserve of them are for tenants that have none; the others are shared by the tenants
	// that have some. One tenant has at most perTenant, of which perEndpoint go to the same host.
	inFlight    = 16
	reserve     = 4
	perTenant   = 8
	perEndpoint = 4
	// maxLooked bounds the decisions and jobs that are looked at in a round, and maxLookedEach those after a request. Most of them wait for their
	// next try, and cost a look into the table and into a map.
	maxLooked     = 16384
	maxLookedEach = 256
	// minLooked bounds the share of a tenant in that from below.
	minLooked = 16
	// sweepEvery is how often the turn forgets what is over.
	sweepEvery = time.Minute
)

// choose returns notices to send, and counts them as under way. It goes round the tenants and takes one notice of each, until no tenant
// has another one to send or all requests are under way.
func (t *turn) choose(most int) (chosen []sent) {
	v := t.State.View()
	if time.Since(t.swept) >= sweepEvery {
		t.sweep(v)
	}
	names := t.wanting(v, most/minLooked)
	for len(names) > 0 {
		each := max(minLooked, most/len(names))
		names = slices.DeleteFunc(names, func(name string) bool {
			if t.busy == inFlight || most <= 0 || len(t.notes) >= maxUnnoted {
				return true
			}
			t.next = name + "\x00"
			looked, found := t.chooseOf(v, name, each)
			most -= looked
			if found == nil {
				return true
			}
			chosen = append(chosen, *found)
			return false
		})
	}
	if len(chosen) > 0 {
		t.readKeys()
	}
	return chosen
}

// wanting lists the tenants that have untold notices, from the next one on and then from the start.
func (t *turn) wanting(v *fsm.View, most int) (names []string) {
	for _, from := range []string{t.next, ""} {
		for name := range tenantsFrom(v, from) {
			if len(names) == most || from == "" && t.next != "" && name >= t.next {
				break
			}
			names = append(names, name)
		}
		if t.next == "" {
			break
		}
	}
	return names
}

// share is how many requests of a tenant may be under way.
func (t *turn) share(o *tenant) int {
	switch {
	case o.busy == 0:
		return 1
	case t.busy >= inFlight-reserve:
		return 0
	}
	return max(1, min(perTenant, (inFlight-reserve)/t.active))
}

// chooseOf looks at the decisions and jobs of a tenant, from its cursor on and then from the start, for one to send.
func (t *turn) chooseOf(v *fsm.View, name string, most int) (looked int, found *sent) {
	o := t.tenants[name]
	if o == nil {
		o = &tenant{endpoints: map[string]*endpoint{}}
		t.tenants[name] = o
	}
	if o.busy >= t.share(o) {
		return 0, nil
	}
	now, start := time.Now(), o.cursor
	for _, span := range [2]struct{ from, to key }{{start, key{job: math.MaxUint64}}, {key{}, start}} {
		for d := range untold(v, name, span.from) {
			if !d.less(span.to) {
				break
			}
			if looked == most {
				return looked, nil
			}
			looked++
			o.cursor = d.next()
			k := t.may(o, &d, now)
			switch {
			case k == nil:
			case !t.On():
				t.leave(k, &d)
			default:
				k.busy = true
				t.count(k, 1)
				return looked, &sent{d}
			}
		}
		o.cursor = key{}
	}
	return looked, nil
}

// may returns what is known of a decision or job whose first notice may be sent; nil: it may not. The cheap tests come first.
func (t *turn) may(o *tenant, d *subject, now time.Time) *known {
	k := t.known[d.key]
	if k == nil {
		k = &known{owner: o, at: o.endpoint(d.url), pauses: wait.Backoff{First: firstPause, Longest: longestPause}}
		t.known[d.key] = k
	}
	at := k.at
	if k.busy || d.number <= k.told || now.Before(k.after) {
		return nil
	}
	if k.since.IsZero() {
		k.since, k.event = now, 0
	}
	if k.event != d.kind {
		k.event, k.fails = d.kind, at.fails
	}
	if at.busy >= perEndpoint || at.hangs && (at.busy > 0 || now.Before(at.after)) {
		return nil
	}
	return k
}

func (o *tenant) endpoint(text string) *endpoint {
	host := hostOf(text)
	e := o.endpoints[host]
	if e == nil {
		e = &endpoint{pauses: wait.Backoff{First: firstPause, Longest: longestPause}}
		o.endpoints[host] = e
	}
	return e
}

// hostOf is the host of a URL, however it is written and whatever its port is.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// leave leaves a notice to a leader that has the settings to send it, and says so once. That is no try.
func (t *turn) leave(k *known, d *subject) {
	if d.shown == errOff.Error() || len(t.notes) >= maxUnnoted {
		return
	}
	k.busy = true
	t.notes = append(t.notes, d.note(false, errOff.Error()))
}

// sweep forgets the decisions and jobs that have no untold notices any more, and what only they needed.
func (t *turn) sweep(v *fsm.View) {
	t.swept = time.Now()
	for id, k := range t.known {
		if !k.busy && !stillOwes(v, id) {
			delete(t.known, id)
		} else {
			k.at.used = true
		}
	}
	for name, o := range t.tenants {
		for host, e := range o.endpoints {
			if !e.used && !t.swept.Before(e.after) {
				delete(o.endpoints, host)
			}
			e.used = false
		}
		if len(o.endpoints) == 0 {
			delete(t.tenants, name)
		}
	}
}

// readKeys reads the secrets again. A file that cannot be read, perhaps because it is being replaced, leaves those that were read last.
func (t *turn) readKeys() {
	found, err := readKeys(t.SecretFile)
	if err != nil {
		t.Log.Warn("the secrets of webhooks were not read again: those that were read last sign", "error", err)
		return
	}
	t.keys = found
}
