package inputs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/durable"
)

const (
	// silence is how long rank 0 waits for agents that it has not heard from. Agents of earlier versions never send
	// anything.
	silence = time.Minute
	// answerTime is how long a question about an agreement waits for news. presence is how often the agent of a task
	// that is still fetching sends a sign of life.
	answerTime = 20 * time.Second
	presence   = 15 * time.Second
	// decisionsFolder, in the data directory, has the decisions of the ranks 0 on this node, by the name of their task.
	// A later agent must not decide otherwise.
	decisionsFolder = "resume"
	// forgetAfter is how long an agreement is kept whose rank 0 never started on this node.
	forgetAfter = 10 * time.Minute
	// maxDecisionAge is the age at which a leftover decision is removed.
	maxDecisionAge = 30 * 24 * time.Hour
	// mostUnknown limits the agreements that others have asked about before rank 0 has begun here.
	mostUnknown = 4096
)

// agreements holds the agreements of the attempts whose rank 0 is on this node.
type agreements struct {
	dir string
	log *slog.Logger

	mu  sync.Mutex
	all map[attempt]*agreement
}

// attempt names an attempt of a job.
type attempt struct {
	job    string
	number int32
	token  uint64
}

func attemptOf(id taskid.ID) attempt { return attempt{id.Job, id.Attempt, id.Token} }

// agreement is the agreement on the checkpoint that all tasks of an attempt resume from: the first one that all of them
// can get. Rank 0 proposes one after the other.
type agreement struct {
	// peers are the nodes of all ranks; nil: rank 0 has not begun here, or an earlier agent led it.
	peers    []*v1.TaskPeer
	round    string
	proposal int32
	point    *v1.ResumePoint // nil: from the beginning
	decided  bool
	answers  map[int32]v1.ResumeAnswer_Value // to the proposal, by rank
	heard    map[int32]time.Time
	touched  time.Time
	changed  chan struct{} // closed and replaced at every change
}

func newAgreement() *agreement {
	return &agreement{round: rand.Text(), answers: map[int32]v1.ResumeAnswer_Value{}, heard: map[int32]time.Time{}, changed: make(chan struct{})}
}

func (a *agreement) change() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func openAgreements(dataDir string, log *slog.Logger) *agreements {
	g := &agreements{dir: filepath.Join(dataDir, decisionsFolder), log: log, all: make(map[attempt]*agreement)}
	old, _ := os.ReadDir(g.dir)
	for _, e := range old {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > maxDecisionAge {
			_ = os.Remove(filepath.Join(g.dir, e.Name()))
		}
	}
	return g
}

// of returns an agreement, with the decision of an earlier agent if there is one. The caller holds the mutex.
func (g *agreements) of(id attempt) *agreement {
	a := g.all[id]
	if a == nil {
		a = newAgreement()
		if point, err := g.read(id); err == nil {
			a.proposal, a.point, a.decided = 1, point, true
		}
		for other, old := range g.all {
			if old.proposal == 0 && time.Since(old.touched) > forgetAfter {
				delete(g.all, other)
			}
		}
		g.all[id] = a
	}
	a.touched = time.Now()
	return a
}

// lead begins the agreement of an attempt whose ranks run on some nodes.
func (g *agreements) lead(id attempt, peers []*v1.TaskPeer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of(id).peers = peers
}

// asked returns the agreement that a node asks about for a rank, or says why it gets no answer. A question may come before
// rank 0 has begun here. The caller holds the mutex.
func (g *agreements) asked(id attempt, node string, rank int32) (*agreement, error) {
	if a := g.all[id]; a == nil && len(g.all) >= mostUnknown {
		unknown := 0
		for _, a := range g.all {
			if a.peers == nil {
				unknown++
			}
		}
		if unknown >= mostUnknown {
			return nil, status.Error(codes.ResourceExhausted, "too many agreements wait for their rank 0 on this node: ask again")
		}
	}
	a := g.of(id)
	if a.peers != nil && (int(rank) >= len(a.peers) || a.peers[rank].GetNodeId() != node) {
		return nil, status.Errorf(codes.PermissionDenied, "rank %d of attempt %d of job %s does not run on node %s", rank, id.number, id.job, node)
	}
	return a, nil
}

func (g *agreements) file(id attempt) string {
	return filepath.Join(g.dir, taskid.ID{Job: id.job, Attempt: id.number, Token: id.token}.Name())
}

// decision is a decision on disk.
type decision struct {
	// Point is the encoded checkpoint; absent: from the beginning.
	Point []byte `json:"point,omitempty"`
}

func (g *agreements) read(id attempt) (*v1.ResumePoint, error) {
	text, err := os.ReadFile(g.file(id))
	if err != nil {
		return nil, err
	}
	var d decision
	if err := json.Unmarshal(text, &d); err != nil || d.Point == nil {
		return nil, err
	}
	point := &v1.ResumePoint{}
	return point, proto.Unmarshal(d.Point, point)
}

// decided returns the decision, if it was made.
func (g *agreements) decided(id attempt) (point *v1.ResumePoint, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.of(id)
	return a.point, a.decided
}

// propose makes a proposal; a nil point proposes to start from the beginning.
func (g *agreements) propose(id attempt, point *v1.ResumePoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.of(id)
	a.proposal++
	a.point = point
	clear(a.answers)
	a.change()
}

// decide makes the proposal the decision. It writes it to disk first.
func (g *agreements) decide(id attempt) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.of(id)
	var d decision
	if a.point != nil {
		text, err := proto.Marshal(a.point)
		if err != nil {
			return err
		}
		d.Point = text
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = durable.MkdirAll(g.dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(g.file(id), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the checkpoint to resume from: %w", err)
	}
	a.decided = true
	a.change()
	return nil
}

// others waits until the tasks beside rank 0 have answered the proposal. It returns true if all of them have the
// checkpoint, and false if one cannot get it. It does not wait for tasks whose agents are silent.
func (g *agreements) others(ctx context.Context, id attempt, ranks int) (bool, error) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		g.mu.Lock()
		a := g.of(id)
		waits, refused, silent := 0, false, 0
		for rank := int32(1); rank < int32(ranks); rank++ {
			heard, ok := a.heard[rank]
			if !ok || heard.Before(began) {
				heard = began
			}
			switch {
			case a.answers[rank] == v1.ResumeAnswer_CANNOT_GET_IT:
				refused = true
			case a.answers[rank] == v1.ResumeAnswer_HAS_IT:
			case time.Since(heard) > silence:
				silent++
			default:
				waits++
			}
		}
		changed := a.changed
		g.mu.Unlock()
		switch {
		case refused:
			return false, nil
		case waits == 0:
			if silent > 0 {
				g.log.Warn("agents of other tasks do not say whether they can get the checkpoint to resume from", "job", id.job, "attempt", id.number, "tasks", silent)
			}
			return true, nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return false, errors.New("stopped while its tasks agreed on a checkpoint")
		}
	}
}

// ask answers a task beside rank 0: at once if there is news for it.
func (g *agreements) ask(ctx context.Context, req *v1.AgreeOnResumeRequest) (*v1.AgreeOnResumeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	id, rank := attemptOf(taskid.Of(req.GetTask())), req.GetTask().GetRank()
	if task := taskid.Of(req.GetTask()); !task.Valid() || rank < 0 {
		return nil, status.Error(codes.InvalidArgument, "this names no task of a job")
	}
	told := req.GetAnswer() == v1.ResumeAnswer_UNSPECIFIED && req.GetProposal() > 0 // only a sign of life
	for {
		g.mu.Lock()
		a, err := g.asked(id, req.GetNodeId(), rank)
		if err != nil {
			g.mu.Unlock()
			return nil, err
		}
		if a.peers != nil { // else nothing waits for it yet, and any number of ranks could be named
			a.heard[rank] = time.Now()
		}
		current := req.GetRound() == a.round && req.GetProposal() == a.proposal
		if current && a.peers != nil && req.GetAnswer() != v1.ResumeAnswer_UNSPECIFIED && a.answers[rank] != req.GetAnswer() {
			a.answers[rank] = req.GetAnswer()
			a.change()
		}
		out := &v1.AgreeOnResumeResponse{Round: a.round, Proposal: a.proposal, Point: a.point, Decided: a.decided}
		changed := a.changed
		g.mu.Unlock()
		if told || out.GetDecided() || out.GetProposal() > 0 && !current {
			return out, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return out, nil
		}
	}
}

// forget removes the agreement and the decision of a task that has ended.
func (g *agreements) forget(id taskid.ID) {
	if id.Rank != 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, attemptOf(id))
	if err := os.Remove(g.file(attemptOf(id))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.log.Error("cannot remove the record of the checkpoint that an attempt resumed from", "job", id.Job, "error", err)
	}
}
