package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// auditPatience bounds how long one replica waits for the hash of another.
const auditPatience = 2 * time.Second

// remindEvery is after how many rounds a difference that stays is logged again.
const remindEvery = 20

// audit compares this replica's state with that of the other voters at the same index, while they serve. Equal logs must
// make equal states; where they did not, by a fault in memory or in a version, what this replica answers and decides is
// wrong. So one whose state is not that of a majority takes itself out of service. A majority cannot do so: at most a
// minority differs from it. Where no majority can be told, nobody knows who is right, and all sound the alarm and go on.
type audit struct {
	history     history
	mismatches  prometheus.Counter
	comparisons prometheus.Counter

	// What follows belongs to the loop.
	target uint64 // what was newest one round ago: others have probably applied it by now
	logged string
	rounds int
}

func (a *audit) register(reg prometheus.Registerer) {
	a.mismatches = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_state_hash_mismatch_total", Help: "Comparisons in which another voter's state differed from this replica's at the same index.",
	})
	a.comparisons = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mind_state_hash_comparisons_total", Help: "Comparisons of this replica's state with that of another voter at the same index.",
	})
	reg.MustRegister(a.mismatches, a.comparisons)
}

// auditLoop runs until life ends, or this replica is out of service.
func (s *server) auditLoop(ctx context.Context) {
	ticker := time.NewTicker(s.config.Timers.Audit)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if why := s.auditRound(ctx); why != "" {
				s.replica.Retire(why)
				return
			}
		}
	}
}

// auditRound compares once, and returns why this replica must go out of service, or "".
func (s *server) auditRound(ctx context.Context) string {
	a := &s.audit
	own, ok := a.history.near(a.target)
	a.target = a.history.newest()
	if !ok {
		return ""
	}
	voters, others := 0, map[string]string{}
	for _, p := range s.replica.Raft().Peers() {
		if p.Voter {
			voters++
			if p.ID != s.config.ID {
				others[p.ID] = s.replica.GRPCAddr(p.ID)
			} else {
				others[p.ID] = ""
			}
		}
	}
	hashes := s.collectHashes(ctx, own, others)
	found := compareHashes(s.config.ID, hashText(own.hash), voters, hashes)
	compared := len(hashes)
	if _, ok := hashes[s.config.ID]; ok {
		compared--
	}
	a.comparisons.Add(float64(compared))
	a.mismatches.Add(float64(len(found.differ)))
	if len(found.differ) == 0 {
		a.logged = ""
		return ""
	}
	if found.outvoted {
		return fmt.Sprintf("its state at index %d is not that of a majority of the replicas (%s)", own.index, strings.Join(found.differ, ", "))
	}
	a.complain(s.log, found, own)
	return ""
}

// complain logs a difference when it is new, and now and then while it stays.
func (a *audit) complain(log *slog.Logger, found verdict, own stateMark) {
	a.rounds++
	if key := fmt.Sprint(found); key == a.logged && a.rounds%remindEvery != 0 {
		return
	} else {
		a.logged = key
	}
	text := "states of replicas differ, and no majority says which is right: stop one and verify it with `mind raft verify`"
	if found.majority {
		text = "the state of a replica differs from that of a majority"
	}
	log.Error(text, "index", own.index, "hash", hashText(own.hash), "differ", found.differ)
}

// collectHashes asks the other voters for the hash at this replica's index. Who does not answer, does not remember the
// index, or takes its hash of something else (another version) is left out.
func (s *server) collectHashes(ctx context.Context, own stateMark, voters map[string]string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	ctx = s.replica.AsReplica(ctx)
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		hashes = map[string]string{}
	)
	if _, votes := voters[s.config.ID]; votes {
		hashes[s.config.ID] = hashText(own.hash)
	}
	for id, addr := range voters {
		if id == s.config.ID || addr == "" {
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

// verdict is what a comparison came to.
type verdict struct {
	// differ are the replicas whose hash is not this one's.
	differ []string
	// majority: more than half of all voters have the same hash. outvoted: it is not this replica's.
	majority, outvoted bool
}

// compareHashes judges the hashes of some of the voters. self need not be one of them.
func compareHashes(self, own string, voters int, hashes map[string]string) verdict {
	var found verdict
	count := map[string]int{}
	for id, hash := range hashes {
		count[hash]++
		if hash != own && id != self {
			found.differ = append(found.differ, id)
		}
		if count[hash] > voters/2 {
			found.majority, found.outvoted = true, hash != own
		}
	}
	slices.Sort(found.differ)
	return found
}

// hashText is a state hash as replicas tell it: what it is taken of, and the hash.
func hashText(hash uint64) string { return fmt.Sprintf("%s-%016x", fsm.HashFormat(), hash) }

func formatOf(text string) string {
	format, _, _ := strings.Cut(text, "-")
	return format
}

var errNoSuchMark = errors.New("this index is not remembered (any more, or yet)")

// GetStateHash lets replicas be compared.
func (s *server) GetStateHash(ctx context.Context, req *v1.GetStateHashRequest) (*v1.GetStateHashResponse, error) {
	v := s.replica.View()
	m := stateMark{v.Index(), v.Hash()}
	if at := req.GetIndex(); at != 0 && at != m.index {
		var ok bool
		if m, ok = s.audit.history.at(at); !ok {
			return nil, call.Errorf(codes.NotFound, "%s: %d", errNoSuchMark, at)
		}
	}
	call.Of(ctx).Index.Store(m.index)
	return &v1.GetStateHashResponse{Index: m.index, Hash: hashText(m.hash), CoordinatorId: s.config.ID}, nil
}
