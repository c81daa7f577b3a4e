package selfcheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
)

// answerTime bounds how long one replica waits for the hash of another.
const answerTime = 2 * time.Second

// remindEvery is after how many rounds a persistent difference is logged again.
const remindEvery = 20

// Service compares hashes, and answers other replicas.
type Service struct {
	replica *replica.Replica
	every   time.Duration
	log     *slog.Logger

	history     history
	mismatches  prometheus.Counter
	comparisons prometheus.Counter

	// The fields below belong to Run.
	target uint64 // the newest index of the last round, which others have probably applied by now
	logged string
	rounds int
}

// New returns a service that compares at an interval once it runs. Its Observe must be called with every entry.
func New(r *replica.Replica, every time.Duration, reg prometheus.Registerer, log *slog.Logger) *Service {
	s := &Service{replica: r, every: every, log: log}
	s.mismatches = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_state_hash_mismatch_total", Help: "Comparisons in which another voter's state differed from this replica's at the same index.",
	})
	s.comparisons = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_state_hash_comparisons_total", Help: "Comparisons of this replica's state with that of another voter at the same index.",
	})
	reg.MustRegister(s.mismatches, s.comparisons)
	return s
}

// Observe records the hash after an entry. The applying goroutine calls it.
func (s *Service) Observe(v *fsm.View, events []event.Event) { s.history.observe(v, events) }

// Run compares until ctx ends, or this replica is out of service.
func (s *Service) Run(ctx context.Context) {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if why := s.round(ctx); why != "" {
				s.replica.Retire(why)
				return
			}
		}
	}
}

// round compares once, and returns why this replica must go out of service, or "".
func (s *Service) round(ctx context.Context) string {
	own, ok := s.history.near(s.target)
	s.target = s.history.newest()
	if !ok {
		return ""
	}
	self := s.replica.ID()
	voters, others := 0, map[string]string{}
	for _, p := range s.replica.Raft().Peers() {
		if p.Voter {
			voters++
			if p.ID != self {
				others[p.ID] = s.replica.GRPCAddr(p.ID)
			} else {
				others[p.ID] = ""
			}
		}
	}
	hashes := s.collectHashes(ctx, own, others)
	found := compareHashes(self, replica.HashText(own.hash), voters, hashes)
	compared := len(hashes)
	if _, ok := hashes[self]; ok {
		compared--
	}
	s.comparisons.Add(float64(compared))
	s.mismatches.Add(float64(len(found.differ)))
	if len(found.differ) == 0 {
		s.logged = ""
		return ""
	}
	if found.outvoted {
		return fmt.Sprintf("its state at index %d is not that of a majority of the replicas (%s)", own.index, strings.Join(found.differ, ", "))
	}
	s.complain(found, own)
	return ""
}

// complain logs a new difference, and repeats it while it persists.
func (s *Service) complain(found comparison, own stateMark) {
	s.rounds++
	if key := fmt.Sprint(found); key == s.logged && s.rounds%remindEvery != 0 {
		return
	} else {
		s.logged = key
	}
	text := "states of replicas differ, and there is no majority: stop one and verify it with `mind raft verify`"
	if found.majority {
		text = "the state of a replica differs from that of a majority"
	}
	s.log.Error(text, "index", own.index, "hash", replica.HashText(own.hash), "differ", found.differ)
}

// collectHashes asks the other voters for the hash at this replica's index. It omits a voter that does not answer, does not
// remember the index, or hashes something else (another version).
func (s *Service) collectHashes(ctx context.Context, own stateMark, voters map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ctx = s.replica.AsReplica(ctx)
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		hashes = map[string]string{}
	)
	if _, votes := voters[s.replica.ID()]; votes {
		hashes[s.replica.ID()] = replica.HashText(own.hash)
	}
	for id, addr := range voters {
		if id == s.replica.ID() || addr == "" {
			continue
		}
		all.Go(func() {
			conn, err := s.replica.Link(addr)
			if err != nil {
				return
			}
			resp, err := v1.NewOperatorServiceClient(conn).GetStateHash(ctx, &v1.GetStateHashRequest{Index: own.index})
			if err != nil || resp.GetCoordinatorId() != id || resp.GetIndex() != own.index || formatOf(resp.GetHash()) != fsm.HashFormat() {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			hashes[id] = resp.GetHash()
		})
	}
	all.Wait()
	return hashes
}

// formatOf returns the format of the hashed data in a hash text.
func formatOf(text string) string {
	format, _, _ := strings.Cut(text, "-")
	return format
}

var errNoSuchMark = errors.New("this index is not remembered")

// GetStateHash returns this replica's hash at an index, for comparisons.
func (s *Service) GetStateHash(ctx context.Context, req *v1.GetStateHashRequest) (*v1.GetStateHashResponse, error) {
	v := s.replica.View()
	m := stateMark{v.Index(), v.Hash()}
	if at := req.GetIndex(); at != 0 && at != m.index {
		var ok bool
		if m, ok = s.history.at(at); !ok {
			return nil, call.Errorf(codes.NotFound, "%s: %d", errNoSuchMark, at)
		}
	}
	call.Of(ctx).Index.Store(m.index)
	return &v1.GetStateHashResponse{Index: m.index, Hash: replica.HashText(m.hash), CoordinatorId: s.replica.ID()}, nil
}
