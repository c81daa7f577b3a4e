package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// play steps a plan through time, and lists the actions with their second.
func play(p *StopPlan, from time.Time, seconds int, at map[int]func(now time.Time)) (acts []string) {
	names := map[Action]string{ActNotice: "notice", ActTerm: "term", ActKill: "kill"}
	for s := range seconds {
		now := from.Add(time.Duration(s) * time.Second)
		if f := at[s]; f != nil {
			f(now)
		}
		for {
			action, _ := p.Step(now)
			if action == ActNone {
				break
			}
			if name := names[action]; len(acts) == 0 || name != "kill" || acts[len(acts)-1][:4] != "kill" {
				acts = append(acts, name+" "+time.Duration(s*int(time.Second)).String())
			}
		}
	}
	return acts
}

func TestStopPlan(t *testing.T) {
	start := time.Unix(1000, 0)
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	for name, c := range map[string]struct {
		at   func(p *StopPlan) map[int]func(time.Time)
		want []string
	}{
		"never asked": {func(*StopPlan) map[int]func(time.Time) { return nil }, nil},
		"with notice": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){1: func(now time.Time) { p.Ask(now, StopRequest{Notice: seconds(30), Term: seconds(10)}) }}
		}, []string{"notice 1s", "term 31s", "kill 41s"}},
		"without": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){1: func(now time.Time) { p.Ask(now, StopRequest{Term: seconds(10)}) }}
		}, []string{"term 1s", "kill 11s"}},
		"hurried": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){
				1: func(now time.Time) { p.Ask(now, StopRequest{Notice: seconds(30), Term: seconds(30)}) },
				5: func(now time.Time) { p.Ask(now, StopRequest{Term: seconds(3)}) },
			}
		}, []string{"notice 1s", "term 5s", "kill 8s"}},
		"not slowed": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){
				1: func(now time.Time) { p.Ask(now, StopRequest{Term: seconds(3)}) },
				2: func(now time.Time) { p.Ask(now, StopRequest{Notice: seconds(50), Term: seconds(50)}) },
			}
		}, []string{"term 1s", "kill 4s"}},
		"leftovers": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){1: p.leftovers}
		}, []string{"term 1s", "kill 3s"}},
		"leftovers of a stop": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){
				1: func(now time.Time) { p.Ask(now, StopRequest{Notice: seconds(30), Term: seconds(10)}) },
				3: p.leftovers,
			}
		}, []string{"notice 1s", "term 3s", "kill 13s"}},
		"leftovers after SIGTERM keep the deadline": {func(p *StopPlan) map[int]func(time.Time) {
			return map[int]func(time.Time){
				1: func(now time.Time) { p.Ask(now, StopRequest{Term: seconds(10)}) },
				9: p.leftovers,
			}
		}, []string{"term 1s", "kill 11s"}},
	} {
		t.Run(name, func(t *testing.T) {
			var p StopPlan
			require.Equal(t, c.want, play(&p, start, 60, c.at(&p)))
		})
	}
}

// The kill of a process that does not die is repeated, with growing pauses.
func TestKillIsRepeated(t *testing.T) {
	var p StopPlan
	now := time.Unix(1000, 0)
	p.Ask(now, StopRequest{})
	kills := 0
	var last time.Duration
	for range 40 {
		action, next := p.Step(now)
		switch action {
		case ActKill:
			kills++
		case ActNone:
			require.GreaterOrEqual(t, next, last)
			require.LessOrEqual(t, next, time.Second)
			last = next
			now = now.Add(next)
		}
	}
	require.Greater(t, kills, 10)
}
