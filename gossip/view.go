package gossip

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// about is the metadata that a member sends about itself.
type about struct {
	Role        string            `json:"r"`
	Incarnation uint64            `json:"i"`
	Leaving     bool              `json:"l,omitempty"`
	Meta        map[string]string `json:"m,omitempty"`
}

func (a about) encode() []byte {
	raw, err := json.Marshal(a)
	if err != nil { // strings, numbers and a bool always encode
		panic(err)
	}
	return raw
}

func (a about) check() error {
	a.Leaving = true // the longest form
	if n := len(a.encode()); n > memberlist.MetaMaxSize {
		return fmt.Errorf("gossip meta is %d bytes, at most %d", n, memberlist.MetaMaxSize)
	}
	return nil
}

// view stores what memberlist reports. Memberlist calls it with its own locks held: nothing here may call memberlist.
type view struct {
	log  *slog.Logger
	name string

	mu   sync.Mutex
	me   about
	all  map[string]*known
	subs []chan struct{}
}

type known struct {
	Member
	leaving bool
	// suspectAt is the time at which a probe of this process was not answered; zero: there is no suspicion.
	suspectAt time.Time
}

// suspectAtMost is how long a suspicion of this process can last: after that memberlist has either declared the death or
// dropped the suspicion, possibly because of an indirect answer, which it does not report.
const suspectAtMost = suspicionMult*suspicionMaxMult*probeInterval + 2*time.Second

func newView(l *slog.Logger, name string, me about) *view {
	return &view{log: l, name: name, me: me, all: map[string]*known{}}
}

func (v *view) members(now time.Time) []Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]Member, 0, len(v.all))
	for _, k := range v.all {
		m := k.Member
		m.Meta = maps.Clone(m.Meta)
		if m.State == Alive && !k.suspectAt.IsZero() && now.Sub(k.suspectAt) < suspectAtMost {
			m.State, m.Since = Suspect, k.suspectAt
		}
		all = append(all, m)
	}
	return all
}

// away returns the addresses to contact: those of dead members, and seeds at which no live member is.
func (v *view) away(seeds []string, self string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lives := map[string]bool{self: true}
	var targets []string
	for _, k := range v.all {
		switch k.State {
		case Alive:
			lives[k.Addr] = true
		case Dead:
			targets = append(targets, k.Addr)
		}
	}
	targets = append(targets, seeds...)
	return slices.DeleteFunc(targets, func(addr string) bool { return lives[addr] })
}

func (v *view) subscribe() <-chan struct{} {
	ch := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.subs = append(v.subs, ch)
	return ch
}

// changed notifies the subscribers. The caller holds the lock.
func (v *view) changed() {
	for _, ch := range v.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (v *view) setMeta(meta map[string]string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := v.me
	next.Meta = maps.Clone(meta)
	if err := next.check(); err != nil {
		return err
	}
	v.me = next
	return nil
}

func (v *view) incarnation() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.me.Incarnation
}

func (v *view) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.me.Leaving = true
}

// NotifyJoin implements memberlist.EventDelegate.
func (v *view) NotifyJoin(n *memberlist.Node) { v.heard(n, Alive) }

// NotifyUpdate implements memberlist.EventDelegate.
func (v *view) NotifyUpdate(n *memberlist.Node) { v.heard(n, Alive) }

// NotifyLeave implements memberlist.EventDelegate; it is called for deaths too.
func (v *view) NotifyLeave(n *memberlist.Node) { v.heard(n, Dead) }

func (v *view) heard(n *memberlist.Node, state State) {
	var a about
	if err := json.Unmarshal(n.Meta, &a); err != nil {
		v.log.Warn("cannot read the metadata of a member", "name", n.Name, "error", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.all[n.Name]
	if k == nil {
		k = &known{}
		v.all[n.Name] = k
	}
	if state == Dead && (a.Leaving || k.leaving) {
		state = Left
	}
	now := time.Now()
	if k.State != state || k.Incarnation != a.Incarnation {
		k.Since = now
		v.log.Info("member", "name", n.Name, "role", a.Role, "state", string(state), "addr", n.Address())
	}
	k.Name, k.Role, k.Addr, k.State = n.Name, a.Role, n.Address(), state
	k.Incarnation, k.Meta, k.leaving = a.Incarnation, a.Meta, a.Leaving
	k.suspectAt = time.Time{}
	v.changed()
}

// suspected is called for each unanswered probe.
func (v *view) suspected(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k := v.all[name]; k != nil && k.State == Alive {
		if now := time.Now(); k.suspectAt.IsZero() || now.Sub(k.suspectAt) >= suspectAtMost {
			k.suspectAt = now
			v.changed()
		}
	}
}

// NotifyPingComplete implements memberlist.PingDelegate; it is called for direct answers only.
func (v *view) NotifyPingComplete(other *memberlist.Node, _ time.Duration, _ []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.all[other.Name]
	if k == nil {
		return
	}
	k.Acked = time.Now()
	if !k.suspectAt.IsZero() {
		k.suspectAt = time.Time{}
		v.changed()
	}
}

// AckPayload implements memberlist.PingDelegate.
func (v *view) AckPayload() []byte { return nil }

// NodeMeta implements memberlist.Delegate.
func (v *view) NodeMeta(int) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.me.encode()
}

// NotifyMsg implements memberlist.Delegate; messages are not used.
func (v *view) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (v *view) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (v *view) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (v *view) MergeRemoteState([]byte, bool) {}
