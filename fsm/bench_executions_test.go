package fsm_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/mindcoordinator/mind/fsm/executions"
	"github.com/mindcoordinator/mind/fsm/executionverbs"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/work/clusterverbs"
)

// quick applies an entry without the checks of a world.
func (w *world) quick(c kernel.Command) []any {
	w.index++
	return w.m.Apply(w.index, w.entry(c))
}

// waiting fills a world with executions that wait for a timer, and for people if asked.
func (w *world) waiting(n int, asked bool) []executionverbs.Advance {
	core := w.core("bench")
	steps := make([]executionverbs.Advance, 0, n)
	for len(steps) < n {
		starts := make([]executionverbs.Start, min(1000, n-len(steps)))
		for i := range starts {
			starts[i] = startOf(core)
			starts[i].Frame = make([]byte, 600)
		}
		for _, r := range w.quick(executionverbs.StartExecutions{Starts: starts})[0].(executionverbs.StartsResult).Results {
			f := executionverbs.Effect{Wait: 1, Path: "rest", Timer: true, After: int64(time.Hour)}
			if asked {
				f = aQuestion(1)
			}
			steps = append(steps, executionverbs.Advance{
				Execution: r.Execution.ID, Frame: make([]byte, 600), Outcome: executionverbs.GoesOn, Effects: []executionverbs.Effect{f},
				Events: []executions.Happening{{Type: executionverbs.TypeEntered, Path: "rest", Kind: "wait"}},
			})
		}
	}
	for from := 0; from < n; from += 1000 {
		w.quick(executionverbs.AdvanceExecutions{Advances: steps[from:min(from+1000, n)]})
	}
	return steps
}

// BenchmarkWaitingExecution says how much memory an execution takes that waits; the events of all of them are in it.
func BenchmarkWaitingExecution(b *testing.B) {
	for _, asked := range []bool{false, true} {
		b.Run(fmt.Sprintf("asks=%v", asked), func(b *testing.B) {
			const n = 100_000
			for range b.N {
				w := newWorld(b)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				w.waiting(n, asked)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/execution")
				runtime.KeepAlive(w)
			}
		})
	}
}

// BenchmarkApplyAdvance applies steps of executions, 64 an entry, beside others that wait.
func BenchmarkApplyAdvance(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", others), func(b *testing.B) {
			w := newWorld(b)
			w.waiting(max(others, 64), false)
			steps := w.endless(64)
			b.ResetTimer()
			for range b.N {
				w.quick(executionverbs.AdvanceExecutions{Advances: steps})
				for i := range steps {
					steps[i].Seq++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/advance")
		})
	}
}

// endless returns steps of executions that go on without end.
func (w *world) endless(n int) []executionverbs.Advance {
	core := w.core("others")
	steps := make([]executionverbs.Advance, n)
	for i := range steps {
		r := w.quick(executionverbs.StartExecutions{Starts: []executionverbs.Start{startOf(core)}})[0].(executionverbs.StartsResult).Results[0]
		steps[i] = executionverbs.Advance{
			Execution: r.Execution.ID, Frame: make([]byte, 600), Outcome: executionverbs.GoesOn, More: true,
			Events: []executions.Happening{{Type: executionverbs.TypeEntered, Path: "a", Kind: "rigid"}, {Type: executionverbs.TypeExited, Path: "a"}},
		}
	}
	return steps
}

// BenchmarkTimersDue fires 100,000 timers that are due at the same time, in Ticks.
func BenchmarkTimersDue(b *testing.B) {
	for range b.N {
		b.StopTimer()
		w := newWorld(b)
		w.waiting(100_000, false)
		w.later(2 * time.Hour)
		b.StartTimer()
		for w.quick(clusterverbs.Tick{})[0].(clusterverbs.TickResult).More {
		}
	}
}
