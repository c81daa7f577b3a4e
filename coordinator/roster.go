package coordinator

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
)

// rosterPace is how long changes of the roster are gathered before the nodes are told, and what the nodes say of the
// versions they keep before it is written down.
// The more there are to be told, the longer: while a thousand nodes come back, each of them would be told a thousand times.
const (
	rosterPace      = 200 * time.Millisecond
	rosterPerMember = time.Millisecond
)

// rosters is the roster as the leader tells it, and what the nodes say of it.
type rosters struct {
	current atomic.Pointer[roster]

	mu   sync.Mutex
	acks map[string]uint64 // nil: not leading
	due  chan struct{}
}

// roster is one version of the list, encoded once for all sessions.
type roster struct {
	version uint64
	message *v1.SessionResponse

	once     sync.Once
	prepared grpc.PreparedMsg
	err      error
}

// send sends the roster on a stream.
func (r *roster) send(stream v1.AgentService_SessionServer) error {
	r.once.Do(func() { r.err = r.prepared.Encode(stream, r.message) })
	if r.err != nil {
		return r.err
	}
	return stream.SendMsg(&r.prepared)
}

func (r *roster) members() []*v1.RosterMember { return r.message.GetRoster().GetMembers() }

func newRoster(v *fsm.View) *roster {
	list := &v1.Roster{Version: v.RosterVersion()}
	for n := range v.Roster() {
		list.Members = append(list.Members, &v1.RosterMember{NodeId: n.ID, GrpcAddr: n.GRPCAddr})
	}
	return &roster{version: list.Version, message: &v1.SessionResponse{Body: &v1.SessionResponse_Roster{Roster: list}}}
}

// begin begins a reign.
func (r *rosters) begin(v *fsm.View) {
	r.current.Store(newRoster(v))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks, r.due = map[string]uint64{}, make(chan struct{}, 1)
}

func (r *rosters) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks = nil
}

// changed is called when the list may have changed.
func (r *rosters) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake()
}

func (r *rosters) wake() {
	if r.acks == nil {
		return
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// kept notes that a node has a version of the roster on disk.
func (r *rosters) kept(node string, version uint64) {
	if version == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acks == nil {
		return
	}
	r.acks[node] = max(r.acks[node], version)
	r.wake()
}

// take returns what nodes keep and the state does not know of, in the order of their names.
func (r *rosters) take(v *fsm.View) []fsm.RosterAck {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []fsm.RosterAck
	for _, id := range slices.SortedFunc(maps.Keys(r.acks), strings.Compare) {
		if n, ok := v.Node(id); ok && n.RosterAcked < r.acks[id] {
			out = append(out, fsm.RosterAck{Node: id, Version: r.acks[id]})
		}
	}
	clear(r.acks)
	return out
}

// distribute tells the nodes of each version of the roster, and the state of what they keep.
func (s *server) distribute(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.rosters.due:
		}
		v := s.replica.View()
		if v.RosterVersion() != s.rosters.current.Load().version {
			s.rosters.current.Store(newRoster(v))
			s.sessions.pokeAll()
		}
		if acks := s.rosters.take(v); len(acks) > 0 {
			_, err := replica.Propose[fsm.AckRosterResult](ctx, s.replica, fsm.AckRoster{Acks: acks})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.log.Warn("what nodes keep of the roster was not written", "error", err)
				for _, ack := range acks {
					s.rosters.kept(ack.Node, ack.Version)
				}
			}
		}
		wait.For(ctx, rosterPace+time.Duration(len(s.rosters.current.Load().members()))*rosterPerMember)
	}
}
