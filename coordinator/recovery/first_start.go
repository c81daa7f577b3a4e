package recovery

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/wait"
)

// A coordinator without data is either new, or has lost its disk. A new one may form a cluster with the others of its
// list. One that lost its disk must not: together with another one that lost its disk it would be a majority that
// overwrites the data of the rest, and it may have cast votes that it no longer knows. So it asks the others of the
// list first:
//
//   - all of them are empty, too, or have begun a cluster with no entries yet: it begins with them;
//   - one has a cluster of which this one is no member: it joins that cluster;
//   - one has a cluster that expects this one, which has never been part of it: it takes its place;
//   - one has a cluster of which this one has been part before: it waits until it was removed (mind raft remove), and
//     joins;
//   - one does not answer, or does not know the leader: it waits, because that one may know more.

// beginning is the way in which a coordinator without data starts.
type beginning uint8

const (
	beginWaits  beginning = iota
	beginAnew             // begin a cluster with the others of the list
	beginsJoins           // join the existing cluster
)

// beginsWith is the state of a coordinator before it has data, for the others that ask.
type beginsWith struct {
	// state is a ReplicaState; UNSPECIFIED: it has data, or does not know yet.
	state atomic.Int32
	// waits is the reason why it waits; nil: it does not wait.
	waits atomic.Pointer[string]
	// joinVia are addresses through which it joins the cluster that it found. It is set before the server is started.
	joinVia []string
}

func (b *beginsWith) over() {
	b.state.Store(int32(v1.ReplicaState_UNSPECIFIED))
	b.waits.Store(nil)
}

// text returns why the coordinator is still starting.
func (b *beginsWith) text() string {
	if why := b.waits.Load(); why != nil {
		return "waiting: " + *why
	}
	return "starting"
}

// firstStart has the answers that a coordinator without data got from the others of its list.
type firstStart struct {
	self   string
	others []string // ids
	// answers are the newest answers; nil: none, for the reason in silent.
	answers map[string]*v1.DescribeReplicaResponse
	silent  map[string]string
	// empty are the coordinators that have said during the life of this process that they have no data. A cluster that
	// they are in now was formed since then, and counts on this coordinator.
	empty map[string]bool
}

func (f *firstStart) heard(id string, answer *v1.DescribeReplicaResponse, err error) {
	delete(f.silent, id)
	f.answers[id] = answer
	if err != nil {
		f.answers[id], f.silent[id] = nil, grpcstatus.Convert(err).Message()
		return
	}
	if answer.GetState() == v1.ReplicaState_EMPTY || answer.GetState() == v1.ReplicaState_FRESH {
		f.empty[id] = true
	}
}

// decide returns the way to start, the coordinators through which to join, and the reason for waiting.
func (f *firstStart) decide() (do beginning, via, why string) {
	ready := 0
	var missing []string
	for _, id := range f.others {
		answer := f.answers[id]
		switch {
		case answer != nil && answer.GetState() == v1.ReplicaState_USED && answer.GetLeader() != "" && answer.GetCurrent():
			switch {
			case !answer.GetMember():
				return beginsJoins, id, ""
			case !answer.GetKnown() || f.empty[id]:
				return beginAnew, "", ""
			}
			return beginWaits, "", fmt.Sprintf("%[2]s was a voter in the cluster of %[1]s, but its data is gone, and with it the votes that it has cast. Remove it with `mind raft remove %[3]s`; then it joins again automatically",
				id, f.self, f.self)
		case f.empty[id]:
			ready++
		case answer == nil:
			missing = append(missing, fmt.Sprintf("%s does not answer (%s)", id, f.silent[id]))
		default:
			missing = append(missing, fmt.Sprintf("%s has the data of a cluster, but does not know its leader", id))
		}
	}
	if ready == len(f.others) {
		return beginAnew, "", ""
	}
	return beginWaits, "", "a new cluster is formed when all of its coordinators have reported that they have no data: " + strings.Join(missing, "; ")
}

const (
	// describeTime limits one round of questions to the others.
	describeTime   = time.Second
	firstStartPace = 100 * time.Millisecond
	// saysAfter is how long a coordinator waits before it logs the reason, and saysEvery how often it repeats it.
	saysAfter = 3 * time.Second
	saysEvery = 30 * time.Second
)

// MayBegin is called by raftnode if there is no data. It returns false if this coordinator must join a cluster.
func (s *Service) MayBegin(ctx context.Context) (bool, error) {
	f, addrs := s.newFirstStart()
	s.beginning.state.Store(int32(v1.ReplicaState_EMPTY))
	defer s.beginning.over()
	say := time.Now().Add(saysAfter)
	for {
		s.describeAll(ctx, f, addrs)
		switch do, via, why := f.decide(); do {
		case beginAnew:
			return true, nil
		case beginsJoins:
			s.log.Info("there is a cluster already: joining it", "through", via)
			s.beginning.joinVia = []string{addrs[via]}
			return false, nil
		default:
			s.beginning.waits.Store(&why)
			if time.Now().After(say) {
				s.log.Warn("this coordinator has no data, and waits", "why", why)
				say = time.Now().Add(saysEvery)
			}
		}
		wait.For(ctx, firstStartPace)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// newFirstStart returns a firstStart without answers, and the addresses of the others.
func (s *Service) newFirstStart() (f *firstStart, addrs map[string]string) {
	f = &firstStart{self: s.replica.ID(), answers: map[string]*v1.DescribeReplicaResponse{}, silent: map[string]string{}, empty: map[string]bool{}}
	addrs = map[string]string{}
	for _, p := range s.listed {
		if p.ID != s.replica.ID() {
			f.others, addrs[p.ID] = append(f.others, p.ID), p.GRPCAddr
		}
	}
	return f, addrs
}

// describeAll asks all others of the list at once.
func (s *Service) describeAll(ctx context.Context, f *firstStart, addrs map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var (
		mu    sync.Mutex
		calls sync.WaitGroup
	)
	for _, id := range f.others {
		calls.Go(func() {
			answer, err := s.describe(ctx, id, addrs[id])
			mu.Lock()
			defer mu.Unlock()
			f.heard(id, answer, err)
		})
	}
	calls.Wait()
}

func (s *Service) describe(ctx context.Context, id, addr string) (*v1.DescribeReplicaResponse, error) {
	conn, err := s.replica.Link(addr)
	if err != nil {
		return nil, err
	}
	answer, err := v1.NewOperatorServiceClient(conn).DescribeReplica(s.replica.AsReplica(ctx), &v1.DescribeReplicaRequest{CoordinatorId: s.replica.ID()})
	if err == nil && answer.GetCoordinatorId() != id {
		return nil, fmt.Errorf("%s answers at its address", answer.GetCoordinatorId())
	}
	return answer, err
}
