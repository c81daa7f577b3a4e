package runner

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkForkExec runs the command alone, for comparison.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		require.NoError(b, exec.Command("/bin/true").Run())
	}
}

// BenchmarkLaunch measures the time until the agent knows that the command runs.
func BenchmarkLaunch(b *testing.B) {
	parent := b.TempDir()
	n := 0
	var forked time.Duration
	for b.Loop() {
		n++
		began := time.Now()
		h, err := self.Start(filepath.Join(parent, strconv.Itoa(n)), newSpec("/bin/true"), nil)
		require.NoError(b, err)
		running(b, h)
		b.StopTimer()
		forked += time.Unix(0, exited(b, h).Started).Sub(began)
		shimGone(b, filepath.Join(parent, strconv.Itoa(n)))
		b.StartTimer()
	}
	b.ReportMetric(float64(forked.Nanoseconds())/float64(n), "ns-to-fork/op")
}

// BenchmarkLaunchToEnd measures the whole life of short tasks in parallel.
func BenchmarkLaunchToEnd(b *testing.B) {
	for _, parallel := range []int{1, 8} {
		b.Run(strconv.Itoa(parallel), func(b *testing.B) {
			parent := b.TempDir()
			slots := make(chan struct{}, parallel)
			for i := range b.N {
				slots <- struct{}{}
				go func() {
					defer func() { <-slots }()
					h, err := self.Start(filepath.Join(parent, strconv.Itoa(i)), newSpec("/bin/true"), nil)
					if err != nil {
						b.Error(err)
						return
					}
					exited(b, h)
				}()
			}
			for range parallel {
				slots <- struct{}{}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
			for i := range b.N {
				shimGone(b, filepath.Join(parent, strconv.Itoa(i)))
			}
		})
	}
}

// BenchmarkLaunchSpare is BenchmarkLaunch on an idle node: shims wait for tasks.
func BenchmarkLaunchSpare(b *testing.B) {
	s, parent := newSpare(b, 2)
	defer s.Close()
	n := 0
	for b.Loop() {
		n++
		dir := filepath.Join(parent, strconv.Itoa(n))
		h, err := s.Start(dir, newSpec("/bin/true"), nil)
		require.NoError(b, err)
		running(b, h)
		b.StopTimer()
		exited(b, h)
		shimGone(b, dir)
		waitFor(b, "refill", func() bool { return s.idle() == 2 })
		b.StartTimer()
	}
}
