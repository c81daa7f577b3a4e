package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const s = int64(time.Second)

// at returns an instant in seconds after the start of the machine.
func at(seconds float64) int64 { return int64(seconds * float64(s)) }

func replaceable(lease, stop int) Task {
	return Task{Lease: time.Duration(lease) * time.Second, Stop: time.Duration(stop) * time.Second, Replaceable: true}
}

func TestDeadlineByTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		task           Task
		stopAt, deadBy float64 // after the renewal was sent
	}{
		"a third at most":     {replaceable(60, 40), 60 - 1.1 - 20, 60 - 1.1},
		"what the task needs": {replaceable(60, 5), 60 - 1.1 - 5, 60 - 1.1},
		"no grace":            {replaceable(60, 0), 60 - 1.1 - 1, 60 - 1.1},
		"the shortest lease":  {replaceable(10, 40), 10 - 0.6 - 10./3, 10 - 0.6},
		"not replaceable":     {Task{Lease: 24 * time.Hour, Stop: 40 * time.Second}, 86400 - 864.5 - 40, 86400 - 864.5},
	} {
		t.Run(name, func(t *testing.T) {
			k := New("n1", Timing{}, at(90))
			k.Add("t", c.task)
			_, ok := k.Deadline("t", at(99))
			require.False(t, ok, "nothing was renewed")
			k.Sent(7, at(100))
			_, ok = k.Deadline("t", at(101))
			require.False(t, ok, "nothing was acknowledged")
			require.True(t, k.Acked(7))
			d, ok := k.Deadline("t", at(101))
			require.True(t, ok)
			require.InDelta(t, at(100+c.stopAt), d.StopAt, 10)
			require.InDelta(t, at(100+c.deadBy), d.DeadBy, 10)
			require.Equal(t, at(100), d.Renewed)
		})
	}
}

func TestALeaseIsRenewedAsOfTheSending(t *testing.T) {
	k := New("n1", Timing{}, at(0))
	k.Add("t", replaceable(60, 40))
	for i := range 5 {
		k.Sent(uint64(i+1), at(float64(i)))
	}
	require.False(t, k.Acked(9), "it was never sent")
	require.True(t, k.Acked(3))
	require.Equal(t, at(2), k.Renewed())
	require.False(t, k.Acked(3), "twice")
	require.False(t, k.Acked(1), "out of order")
	require.Equal(t, at(2), k.Renewed())
	// The agent was stopped for an hour, and then finds the next acknowledgement in its socket.
	require.True(t, k.Acked(5))
	d, _ := k.Deadline("t", at(3600))
	require.Less(t, d.DeadBy, at(64))
	k.Sent(4, at(3600))
	require.False(t, k.Acked(4), "a number was used twice")
}

func TestUnansweredRenewalsAreBounded(t *testing.T) {
	k := New("n1", Timing{}, at(0))
	for i := range 10 * maxUnanswered {
		k.Sent(uint64(i+1), at(float64(i)))
	}
	require.LessOrEqual(t, len(k.unanswered), maxUnanswered)
	require.False(t, k.Acked(5))
	require.True(t, k.Acked(10*maxUnanswered-10))
}

// lonely returns a keeper whose node lost the coordinators at second 100.
func lonely() *Keeper {
	k := New("n1", Timing{}, at(50))
	k.SetRoster(9, []string{"n1", "n2", "n3"})
	k.SessionOpened(at(60))
	k.Add("t", replaceable(60, 40))
	k.Sent(1, at(100))
	k.Acked(1)
	k.SessionClosed(at(104))
	return k
}

func TestRunOn(t *testing.T) {
	byLease := at(100 + 60 - 1.1 - 20)
	for name, c := range map[string]struct {
		what   func(k *Keeper)
		now    float64
		stopAt int64
	}{
		"nobody answers":         {func(*Keeper) {}, 140, byLease},
		"all are cut off":        {func(k *Keeper) { k.PeerClosed("n2", at(138)); k.PeerClosed("n3", at(139)) }, 140, at(143)},
		"the oldest word counts": {func(k *Keeper) { k.PeerClosed("n2", at(139)); k.PeerClosed("n3", at(136)) }, 140, at(141)},
		"the newest of each":     {func(k *Keeper) { k.PeerClosed("n2", at(139)); k.PeerClosed("n2", at(130)); k.PeerClosed("n3", at(139)) }, 140, at(144)},
		"one is silent":          {func(k *Keeper) { k.PeerClosed("n2", at(139)) }, 140, byLease},
		"a word is too old":      {func(k *Keeper) { k.PeerClosed("n2", at(134.9)); k.PeerClosed("n3", at(139)) }, 140, byLease},
		"not on the roster":      {func(k *Keeper) { k.PeerClosed("n2", at(139)); k.PeerClosed("n4", at(139)) }, 140, byLease},
		"before the lease's end": {func(k *Keeper) { k.PeerClosed("n2", at(118)); k.PeerClosed("n3", at(119)) }, 120, byLease},
		"hours later":            {func(k *Keeper) { k.PeerClosed("n2", at(9998)); k.PeerClosed("n3", at(9999)) }, 10000, at(10003)},
		"alone on the roster":    {func(k *Keeper) { k.SetRoster(10, []string{"n1"}) }, 9999, at(10004)},
		"the roster is empty":    {func(k *Keeper) { k.SetRoster(10, nil) }, 9999, at(10004)},
		"not replaceable":        {func(k *Keeper) { k.SetRoster(10, nil); k.Add("t", Task{Lease: time.Minute, Stop: 40 * time.Second}) }, 9999, byLease},
		"a member came": {func(k *Keeper) {
			k.PeerClosed("n2", at(138))
			k.PeerClosed("n3", at(139))
			k.SetRoster(10, []string{"n1", "n2", "n3", "n4"})
		}, 140, byLease},
		"a member left": {func(k *Keeper) { k.PeerClosed("n2", at(138)); k.SetRoster(10, []string{"n1", "n2"}) }, 140, at(143)},
		"a member left and came": {func(k *Keeper) {
			k.PeerClosed("n2", at(139))
			k.PeerClosed("n3", at(139))
			k.SetRoster(10, []string{"n1", "n2"})
			k.SetRoster(11, []string{"n1", "n2", "n3"})
		}, 140, byLease},
		"renewed after all, later": {func(k *Keeper) { k.Sent(2, at(130)); k.Acked(2) }, 140, byLease + 30*s},
	} {
		t.Run(name, func(t *testing.T) {
			k := lonely()
			c.what(k)
			d, ok := k.Deadline("t", at(c.now))
			require.True(t, ok)
			require.InDelta(t, c.stopAt, d.StopAt, 10)
			if d.RunsOn {
				require.InDelta(t, max(at(100+60-1.1), c.stopAt+2*s), d.DeadBy, 10)
			}
			require.Equal(t, d.StopAt > byLease && name != "renewed after all, later", d.RunsOn)
		})
	}
}

func TestWithoutARosterNothingRunsOn(t *testing.T) {
	k := New("n1", Timing{}, at(0))
	k.Add("t", replaceable(60, 40))
	k.Sent(1, at(1))
	k.Acked(1)
	d, ok := k.Deadline("t", at(500))
	require.True(t, ok)
	require.False(t, d.RunsOn)
	require.Less(t, d.DeadBy, at(61))
}

func TestANewAgentExtendsNothing(t *testing.T) {
	k := New("n1", Timing{}, at(500))
	k.SetRoster(9, []string{"n1", "n2"})
	k.Add("t", replaceable(60, 40))
	_, ok := k.Deadline("t", at(501))
	require.False(t, ok)
	known := Deadline{StopAt: at(520), DeadBy: at(540), Renewed: at(481)}
	k.Restore("t", known)
	for _, now := range []float64{501, 519, 700} {
		d, ok := k.Deadline("t", at(now))
		require.True(t, ok)
		require.Equal(t, known, d)
	}
	k.Restore("t", Deadline{StopAt: at(510), DeadBy: at(530), Renewed: at(471)})
	d, _ := k.Deadline("t", at(512))
	require.Equal(t, known, d, "what was true once stays true")
	k.PeerClosed("n2", at(518))
	d, _ = k.Deadline("t", at(518))
	require.Equal(t, Deadline{StopAt: at(523), DeadBy: at(540), Renewed: at(481), RunsOn: true}, d)
	k.Sent(1, at(519))
	k.Acked(1)
	d, _ = k.Deadline("t", at(519))
	require.Equal(t, at(519), d.Renewed)
	require.False(t, d.RunsOn)
}

func TestReplacementsWait(t *testing.T) {
	k := New("n2", Timing{}, at(100))
	require.False(t, k.MayLaunchReplacement(at(108)), "the agent before may have given its word")
	require.True(t, k.MayLaunchReplacement(at(108.1)))
	require.True(t, k.AnswerPing(at(110)))
	at110, ok := k.LastClosedAnswer()
	require.True(t, ok)
	require.Equal(t, at(110), at110)
	k.SessionOpened(at(111))
	require.False(t, k.AnswerPing(at(112)), "it is in session")
	require.False(t, k.MayLaunchReplacement(at(118)))
	require.True(t, k.MayLaunchReplacement(at(118.1)))
	k.SessionClosed(at(119))
	require.True(t, k.AnswerPing(at(119)))
	require.False(t, k.MayLaunchReplacement(at(120)))
}

func TestNeeds(t *testing.T) {
	k := lonely()
	require.True(t, k.NeedRelay(at(104.1)), "it was not answered before")
	require.False(t, k.NeedPing(at(106.1)), "the end of the lease is far")
	require.True(t, k.NeedPing(at(130)))
	require.True(t, k.NeedPing(at(1000)), "it may run on")
	k.SessionOpened(at(1001))
	require.False(t, k.NeedPing(at(1003)))
	require.True(t, k.NeedPing(at(1003.1)), "nothing is renewed in it")
	k.Sent(2, at(1002))
	k.Acked(2)
	require.False(t, k.NeedPing(at(1004)))
	require.False(t, k.NeedRelay(at(1004)))
	k.SessionClosed(at(1010))
	k.SessionClosed(at(1020))
	require.True(t, k.NeedRelay(at(1013)), "closing twice changes nothing")
	require.False(t, k.NeedPing(at(1013)))
	k.Add("t", Task{Lease: time.Minute})
	require.False(t, k.NeedPing(at(9999)), "no task could run on")
	k.Remove("t")
	require.False(t, k.NeedRelay(at(1013)), "there is nothing to renew")
	k = New("n1", Timing{}, at(0))
	k.SetRoster(9, []string{"n1", "n2"})
	k.Add("t", replaceable(60, 0))
	require.True(t, k.NeedRelay(at(0)), "a new agent waits for nothing")
	require.False(t, k.NeedPing(at(0)))
	k.Restore("t", Deadline{StopAt: at(2), DeadBy: at(3)})
	require.True(t, k.NeedPing(at(0)))
	k = New("n1", Timing{}, at(0))
	k.SetRoster(9, []string{"n1", "n2"})
	k.Add("t", replaceable(60, 0))
	k.SessionOpened(at(50))
	k.Sent(1, at(99))
	k.Acked(1)
	k.SessionClosed(at(100))
	require.False(t, k.NeedRelay(at(102)), "not more than two heartbeats")
	require.True(t, k.NeedRelay(at(102.1)))
	k = lonely()
	k.SetRoster(10, []string{"n1"})
	require.False(t, k.NeedRelay(at(200)))
	require.False(t, k.NeedPing(at(200)))
}

func TestTasksComeInOrderAndGo(t *testing.T) {
	k := lonely()
	for _, name := range []string{"c", "a", "b", "a"} {
		k.Add(name, replaceable(60, 0))
	}
	k.Remove("c")
	k.Remove("c")
	var names []string
	for name := range k.Deadlines(at(101)) {
		names = append(names, name)
	}
	require.Equal(t, []string{"t", "a", "b"}, names)
	_, ok := k.Deadline("c", at(101))
	require.False(t, ok)
	for range k.Deadlines(at(101)) {
		break
	}
}

// For any events in any order, no deadline is later than the latest one that an acknowledgement or the pings justify.
func TestNoDeadlineWithoutAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := []string{"n2", "n3", "n4"}
		now, seq := at(1000), uint64(0)
		k := New("n1", Timing{}, now)
		task := Task{
			Lease: time.Duration(rapid.Int64Range(10*s, 100*s).Draw(t, "lease")), Replaceable: rapid.Bool().Draw(t, "replaceable"),
			Stop: time.Duration(rapid.Int64Range(0, 60*s).Draw(t, "stop")),
		}
		k.Add("t", task)
		sent := map[uint64]int64{}
		newest, restored := int64(0), Deadline{}
		word := map[string]int64{}
		var roster []string
		rostered := false
		t.Repeat(map[string]func(*rapid.T){
			"time":   func(t *rapid.T) { now += rapid.Int64Range(0, 3*s).Draw(t, "d") },
			"sent":   func(*rapid.T) { seq++; sent[seq] = now; k.Sent(seq, now) },
			"opened": func(*rapid.T) { k.SessionOpened(now) },
			"closed": func(*rapid.T) { k.SessionClosed(now) },
			"pinged": func(*rapid.T) { k.AnswerPing(now) },
			"restore": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
					stop := now + rapid.Int64Range(1, 20*s).Draw(t, "stop")
					restored = restored.later(Deadline{StopAt: stop, DeadBy: stop + 2*s})
					k.Restore("t", restored)
				}
			},
			"acked": func(t *rapid.T) {
				n := uint64(rapid.IntRange(0, int(seq)+1).Draw(t, "seq"))
				if k.Acked(n) {
					newest = max(newest, sent[n])
				}
			},
			"word": func(t *rapid.T) {
				peer, when := rapid.SampledFrom(peers).Draw(t, "peer"), now-rapid.Int64Range(0, 6*s).Draw(t, "ago")
				k.PeerClosed(peer, when)
				word[peer] = max(word[peer], when)
			},
			"roster": func(t *rapid.T) {
				roster, rostered = rapid.SliceOfDistinct(rapid.SampledFrom(peers), rapid.ID[string]).Draw(t, "roster"), true
				k.SetRoster(1, append([]string{"n1"}, roster...))
			},
			"": func(t *rapid.T) {
				d, ok := k.Deadline("t", now)
				if !ok {
					require.Zero(t, newest+restored.StopAt)
					return
				}
				margin := int64(task.Lease/100) + s/2
				limit := restored.DeadBy
				if newest > 0 {
					limit = max(limit, newest+int64(task.Lease)-margin)
				}
				if rostered && task.Replaceable {
					oldest := now
					for _, peer := range roster {
						oldest = min(oldest, word[peer])
					}
					if now-oldest <= 5*s {
						limit = max(limit, oldest+7*s)
					}
				}
				require.LessOrEqual(t, d.DeadBy, limit+100)
				require.LessOrEqual(t, d.StopAt, d.DeadBy)
				require.GreaterOrEqual(t, d.DeadBy, newest+int64(task.Lease)-margin-100*min(1, newest), "renewed, and yet stopped early")
			},
		})
	})
}
