package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/leader"
	"github.com/mindcoordinator/mind/agent/lease"
	"github.com/mindcoordinator/mind/agent/runner"
	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskid"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// leased gives an order a lease.
func leased(o *v1.TaskOrder, of time.Duration, replaceable bool) *v1.TaskOrder {
	o.Spec.LeaseMs, o.Spec.Replaceable = of.Milliseconds(), replaceable
	return o
}

func exitOf(cfg Config, o *v1.TaskOrder) (shim.Exit, error) {
	return runner.ReadExit(filepath.Join(cfg.DataDir, "tasks", taskid.Of(o.GetTask()).Name()))
}

// stoppedByItself waits until the shim has stopped the task without the agent.
func stoppedByItself(t *testing.T, cfg Config, o *v1.TaskOrder, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := exitOf(cfg, o); return err == nil }, time.Minute, 10*time.Millisecond)
	exit, err := exitOf(cfg, o)
	require.NoError(t, err)
	require.Equal(t, shim.FailureNodeLost, exit.Failure, exit.Message)
	require.Contains(t, exit.Message, "stopped by its own node: no coordinator answered for ")
	require.False(t, alive(pid))
}

func passed(t *testing.T, instant int64) {
	t.Helper()
	require.Eventually(t, func() bool { return shim.Boottime() > instant }, time.Minute, 10*time.Millisecond)
}

func after(d time.Duration) int64 { return shim.Boottime() + int64(d) }

func TestATaskIsRenewedByHeartbeats(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	inProcess(t, cfg)
	o := leased(order("sleep", "1000"), 12*time.Second, true)
	l.want(o)
	pid := l.running(o.GetTask())
	passed(t, after(14*time.Second))
	require.True(t, alive(pid), "it was stopped while a leader answered")
	l.change(func() { l.mute = true })
	stoppedByItself(t, cfg, o, pid)
	l.change(func() { l.mute = false })
	require.Equal(t, v1.ErrorType_NODE_LOST, l.ended(o.GetTask()).GetErrorType())
}

func TestAnUnansweredSessionIsClosed(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	a, _ := opened(t, testConfig(t, l))
	// The session counts as open when the agent has received the first acknowledgement.
	require.Eventually(t, func() bool { return !closed(a)() }, 30*time.Second, time.Millisecond)
	l.change(func() { l.mute = true })
	l.await("another session", func() bool { return len(l.hellos) > 1 })
	l.server.Stop()
	require.Eventually(t, closed(a), 30*time.Second, time.Millisecond)
}

func TestNothingIsLaunchedWithoutALease(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.mute = true
	inProcess(t, testConfig(t, l))
	o, free := leased(order("true"), time.Minute, true), order("true")
	l.want(o, free)
	l.ended(free.GetTask())
	l.await("another session", func() bool { return len(l.hellos) > 1 })
	require.Empty(t, l.kinds(o.GetTask()))
	l.change(func() { l.mute = false })
	require.Zero(t, l.ended(o.GetTask()).GetExitCode())
}

// A task that waits for its launch when the session ends may be replaced elsewhere. A renewal through a peer does not
// show that the coordinators still want it (found by chaos/sim).
func TestNothingIsLaunchedOutOfSession(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	a, _ := opened(t, testConfig(t, l))
	k, spec := taskid.ID{Job: "job", Attempt: 1, Token: 7}, leased(order("true"), time.Minute, true).GetSpec()
	a.leases.Want(k, spec)
	require.Eventually(t, func() bool {
		ok, _ := a.leases.MayLaunch(k, spec)
		return ok
	}, 30*time.Second, time.Millisecond)
	l.server.Stop()
	require.Eventually(t, closed(a), 30*time.Second, time.Millisecond)
	seq, _ := a.leases.Renewal()
	require.True(t, a.leases.Acked(seq), "as when a peer has passed it on")
	ok, why := a.leases.MayLaunch(k, spec)
	require.False(t, ok)
	require.Contains(t, why, "not in session")
}

func TestTheRosterIsKeptOnDisk(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.mute = true
	cfg := testConfig(t, l)
	roster := func(version uint64) *v1.Roster {
		return &v1.Roster{Version: version, Members: []*v1.RosterMember{{NodeId: "n1", GrpcAddr: "127.0.0.1:1"}, {NodeId: "n2", GrpcAddr: "127.0.0.1:2"}}}
	}
	named := func(version uint64) func() bool {
		return func() bool { return l.keeps(version) }
	}
	l.roster = roster(7)
	stop := inProcess(t, cfg)
	l.await("heartbeats", func() bool { return l.beats > 5 })
	require.NoFileExists(t, filepath.Join(cfg.DataDir, leader.RosterFile), "a leader that proved nothing was believed")
	l.change(func() { l.mute = false })
	l.await("version 7", named(7))
	text, err := os.ReadFile(filepath.Join(cfg.DataDir, leader.RosterFile))
	require.NoError(t, err)
	onDisk := &v1.Roster{}
	require.NoError(t, proto.Unmarshal(text[:len(text)-4], onDisk))
	require.EqualValues(t, 7, onDisk.GetVersion())
	require.Len(t, onDisk.GetMembers(), 2)
	for version := uint64(8); version < 60; version++ {
		l.change(func() { l.roster = roster(version) })
	}
	l.await("the newest version", named(59))
	stop()
	hellos := l.said()
	stop = inProcess(t, cfg)
	require.EqualValues(t, 59, l.hello(hellos).GetRosterVersion())
	stop()

	name := filepath.Join(cfg.DataDir, leader.RosterFile)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append([]byte{data[0] ^ 1}, data[1:]...), 0o600))
	l.change(func() { l.roster = nil })
	hellos = l.said()
	inProcess(t, cfg)
	require.Zero(t, l.hello(hellos).GetRosterVersion(), "a damaged roster was used")
}

// downFor stops an agent process for longer than a lease, and checks which of its tasks are alive after that.
func downFor(t *testing.T, down func(agent *os.Process), up func(agent *os.Process, cfg Config)) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	agent := process(t, cfg)
	dir := t.TempDir()
	gate := func(name string) *v1.TaskOrder {
		return order("sh", "-c", fmt.Sprintf("while [ ! -e %s/%s ]; do sleep 0.05; done; exit 41", dir, name))
	}
	lost, kept, ended := leased(order("sleep", "1000"), 10*time.Second, true), leased(gate("kept"), 24*time.Hour, false), leased(gate("ended"), 24*time.Hour, false)
	l.want(lost, kept, ended)
	pid := l.running(lost.GetTask())
	keptPid := l.running(kept.GetTask())
	l.running(ended.GetTask())
	passed(t, after(2*time.Second)) // for renewals
	down(agent.Process)
	stoppedByItself(t, cfg, lost, pid)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600))
	require.Eventually(t, func() bool { _, err := exitOf(cfg, ended); return err == nil }, 30*time.Second, 10*time.Millisecond)
	require.True(t, alive(keptPid))
	up(agent.Process, cfg)
	end := l.ended(lost.GetTask())
	require.Equal(t, v1.ErrorType_NODE_LOST, end.GetErrorType())
	require.EqualValues(t, 41, l.ended(ended.GetTask()).GetExitCode())
	require.True(t, alive(keptPid))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600))
	require.EqualValues(t, 41, l.ended(kept.GetTask()).GetExitCode())
}

func TestADeadAgentKeepsNothingAliveThatMayBeReplaced(t *testing.T) {
	t.Parallel()
	downFor(t, func(agent *os.Process) {
		_ = agent.Kill()
		_, _ = agent.Wait()
	}, func(_ *os.Process, cfg Config) { process(t, cfg) })
}

func TestAStoppedAgentKeepsNothingAliveThatMayBeReplaced(t *testing.T) {
	t.Parallel()
	downFor(t, func(agent *os.Process) { require.NoError(t, agent.Signal(syscall.SIGSTOP)) },
		func(agent *os.Process, _ Config) { require.NoError(t, agent.Signal(syscall.SIGCONT)) })
}

func TestTheNextAgentRenewsWhatItAdopts(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to run out, which takes long")
	}
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	first := process(t, cfg)
	o := leased(order("sleep", "1000"), 15*time.Second, true)
	l.want(o)
	pid := l.running(o.GetTask())
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	limit := after(17 * time.Second)
	// The orders of the next session contain it without a specification, as if the leader had sent that before.
	l.want(&v1.TaskOrder{Task: o.GetTask()})
	process(t, cfg)
	passed(t, limit)
	require.True(t, alive(pid), "its lease was not taken up")
}

func TestAReplacementWaitsUntilItsPredecessorIsGone(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Leases = lease.Timing{Window: 2 * time.Second, Settle: time.Second}
	began := shim.Boottime()
	a, _ := opened(t, cfg)
	o, plain := leased(order("true"), time.Minute, true), leased(order("true"), time.Minute, true)
	o.Spec.Replacement = true
	l.want(o, plain)
	l.ended(plain.GetTask())
	l.running(o.GetTask())
	require.Greater(t, shim.Boottime()-began, int64(3*time.Second))

	// The agent answers that its session is closed, and is bound by that.
	a.sessions.Restart()
	l.change(func() { l.refuse = "127.0.0.1:1" })
	var word int64 // at or before the answer: the clock is read before
	require.Eventually(t, func() bool {
		word = shim.Boottime()
		return closed(a)()
	}, 30*time.Second, time.Millisecond)
	next := leased(order("true"), time.Minute, true)
	next.Spec.Replacement = true
	l.change(func() { l.refuse, l.orders, l.index = "", []*v1.TaskOrder{next}, l.index+1 })
	l.running(next.GetTask())
	require.Greater(t, shim.Boottime()-word, int64(3*time.Second))
}
