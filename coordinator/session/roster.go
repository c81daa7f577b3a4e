package session

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/work/nodeverbs"
)

// rosterPace is how long changes of the roster are collected before they are sent to the nodes, and the nodes' versions
// before they are recorded. It grows with the number of nodes: while a thousand nodes reconnect, each of them would get
// a thousand rosters.
const (
	rosterPace      = 200 * time.Millisecond
	rosterPerMember = time.Millisecond
)

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

// Roster returns the list of agents that may run replacements, in the form for agents.
func Roster(v *fsm.View) *v1.Roster {
	list := &v1.Roster{Version: v.RosterVersion()}
	for n := range v.Roster() {
		list.Members = append(list.Members, &v1.RosterMember{NodeId: n.ID, GrpcAddr: n.GRPCAddr})
	}
	return list
}

func newRoster(v *fsm.View) *roster {
	list := Roster(v)
	return &roster{version: list.Version, message: &v1.SessionResponse{Body: &v1.SessionResponse_Roster{Roster: list}}}
}

// RosterChanged is called when the list of nodes may have changed.
func (t *Table) RosterChanged() { signal(t.rosterDue) }

// Distribute sends each version of the roster to the nodes, and records which versions they have, until ctx ends.
func (t *Table) Distribute(ctx context.Context, state State, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.rosterDue:
		}
		v := state.View()
		if v.RosterVersion() != t.roster.Load().version {
			t.roster.Store(newRoster(v))
			t.all((*session).poke)
		}
		if acks := t.Liveness.Kept(v); len(acks) > 0 {
			_, err := replica.Propose[nodeverbs.AckRosterResult](ctx, state, nodeverbs.AckRoster{Acks: acks})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				log.Warn("cannot record the nodes' versions of the roster", "error", err)
				for _, ack := range acks {
					t.keep(ack.Node, ack.Version)
				}
			}
		}
		wait.For(ctx, rosterPace+time.Duration(len(t.roster.Load().members()))*rosterPerMember)
	}
}

// keep notes that a node has a version of the roster on disk, which Distribute records.
func (t *Table) keep(node string, version uint64) {
	if t.Liveness.Keep(node, version) {
		signal(t.rosterDue)
	}
}
