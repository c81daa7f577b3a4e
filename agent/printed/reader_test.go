package printed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/shim"
	"github.com/mindcoordinator/mind/agent/taskfile"
	"github.com/mindcoordinator/mind/agent/tasklog"
)

// printing is a task that prints, and the Reader of its agent.
type printing struct {
	*Reader
	t      *testing.T
	dir    string
	log    *tasklog.Writer
	stdout *tasklog.Stream
	now    time.Time
}

func newPrinting(t *testing.T, env ...string) *printing {
	t.Helper()
	p := &printing{t: t, dir: t.TempDir(), now: time.Unix(1_700_000_000, 0)}
	p.log = tasklog.NewWriter(p.dir, tasklog.Limits{})
	t.Cleanup(func() { p.log.Close(p.now) })
	p.stdout = p.log.Stream(tasklog.Stdout)
	p.agent(env...)
	return p
}

// agent starts another agent.
func (p *printing) agent(env ...string) {
	p.t.Helper()
	var err error
	p.Reader, err = Open(p.dir, env, 0, false)
	require.NoError(p.t, err)
}

// print prints a line and lets some time pass.
func (p *printing) print(pause time.Duration, format string, args ...any) {
	p.stdout.Write(p.now, fmt.Appendf(nil, format+"\n", args...))
	p.now = p.now.Add(pause)
}

func (p *printing) look(last bool) {
	p.t.Helper()
	for more := true; more; {
		var err error
		more, err = p.Look(p.t.Context(), p.now, last)
		require.NoError(p.t, err)
	}
}

func (p *printing) metrics() string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, shim.MetricsFile))
	if !os.IsNotExist(err) {
		require.NoError(p.t, err)
	}
	return string(data)
}

func TestReader_appendsWhatWasPrinted(t *testing.T) {
	p := newPrinting(t)
	p.print(time.Second, "hello")
	p.print(time.Second, "iter 1: loss 3.0, time 1.00ms")
	p.log.Remark(p.now, "iter 2: loss 3.0, time 1.00ms")
	p.log.Stream(tasklog.Stderr).Write(p.now, []byte("step=3 loss=2\n"))
	p.print(0, "Epoch 0: 10%%|# | 1/10 [0, loss=2]\rEpoch 0: 20%%|# | 2/10 [0, loss=1]")
	p.look(false)
	require.Equal(t, `{"step":1,"loss":3,"time_ms":1}`+"\n", p.metrics(), "the others may be followed by newer ones")
	p.now = p.now.Add(time.Second)
	p.look(false)
	p.look(true)
	require.Equal(t, `{"step":1,"loss":3,"time_ms":1}
{"step":3,"loss":2}
{"step":1,"epoch":0,"loss":2}
{"step":2,"epoch":0,"loss":1}
`, p.metrics())
}

func TestReader_countsLossesWithoutSteps(t *testing.T) {
	p := newPrinting(t)
	p.print(time.Second, "{'eval_loss': 9.0}")
	p.print(time.Second, "{'loss': 3.0, 'epoch': 0.5}")
	p.print(time.Second, "{'loss': 2.0, 'epoch': 1.0}")
	p.look(false)
	p.agent()
	p.print(time.Second, "{'eval_loss': 2.5, 'epoch': 1.0}")
	p.print(time.Second, "{'loss': 1.0, 'epoch': 1.5}")
	p.look(true)
	require.Equal(t, `{"eval_loss":9}
{"step":1,"loss":3,"epoch":0.5}
{"step":2,"loss":2,"epoch":1}
{"step":2,"eval_loss":2.5,"epoch":1}
{"step":3,"loss":1,"epoch":1.5}
`, p.metrics())
}

func TestReader_keepsTheNewestOfManyAndEachKind(t *testing.T) {
	p := newPrinting(t)
	p.print(0, "step 0: train loss 1.0, val loss 2.0")
	for i := range 100 {
		p.print(time.Millisecond, "iter %d: loss 3.0, time 1.00ms", i)
	}
	p.look(true)
	require.Equal(t, `{"step":0,"train_loss":1,"val_loss":2}
{"step":96,"loss":3,"time_ms":1}
{"step":97,"loss":3,"time_ms":1}
{"step":98,"loss":3,"time_ms":1}
{"step":99,"loss":3,"time_ms":1}
`, p.metrics())
}

func TestReader_aClockThatIsSetBackStopsNothing(t *testing.T) {
	p := newPrinting(t)
	p.print(-time.Hour, "step=1 loss=1")
	p.look(false)
	require.Equal(t, "{\"step\":1,\"loss\":1}\n", p.metrics())
	for i := range 3 {
		p.print(time.Second, "step=%d loss=1", i+2)
	}
	p.look(false)
	require.Equal(t, 4, strings.Count(p.metrics(), "\n"))
}

// The shim makes the metrics file of a task that may not make files in its directory.
func TestReader_aFileThatTheShimHasMadeIsNotTheProgramsWhileItIsEmpty(t *testing.T) {
	p := newPrinting(t)
	var err error
	p.Reader, err = Open(p.dir, nil, 0, true)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, shim.MetricsFile), nil, 0o600))
	p.print(time.Second, "step=1 loss=1")
	p.look(false)
	p.print(time.Second, "step=2 loss=1")
	p.look(true)
	require.Equal(t, "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n", p.metrics())

	p = newPrinting(t)
	p.Reader, err = Open(p.dir, nil, 0, true)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, shim.MetricsFile), []byte("{}\n"), 0o600))
	p.print(time.Second, "step=1 loss=1")
	p.look(true)
	require.Equal(t, "{}\n", p.metrics())
}

func TestReader_theFileOfTheProgramWins(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // the first printed line was read before
		write  string
		flags  int
		want   string
	}{
		{"made empty", false, "", os.O_APPEND, ""},
		{"written", false, "{}\n", os.O_APPEND, "{}\n"},
		{"appended to", true, "{}\n", os.O_APPEND, "{\"step\":1,\"loss\":1}\n{}\n"},
		{"rewritten", true, "{}\n", os.O_TRUNC, "{}\n"},
		{"emptied", true, "", os.O_TRUNC, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPrinting(t)
			p.print(time.Second, "step=1 loss=1")
			if c.before {
				p.look(false)
			}
			file, err := os.OpenFile(filepath.Join(p.dir, shim.MetricsFile), os.O_CREATE|os.O_WRONLY|c.flags, 0o600)
			require.NoError(t, err)
			defer file.Close()
			_, err = file.WriteString(c.write)
			require.NoError(t, err)
			for i := range 3 {
				p.print(time.Second, "step=%d loss=1", i+2)
				p.look(false)
			}
			p.look(true)
			require.Equal(t, c.want, p.metrics())
		})
	}
	p := newPrinting(t)
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(p.dir, shim.MetricsFile)))
	p.print(time.Second, "step=1 loss=1")
	p.look(true)
	require.NoFileExists(t, filepath.Join(p.dir, stateFile))
}

func TestReader_theJobSaysHow(t *testing.T) {
	p := newPrinting(t, "A=b", PatternVariable+`=perplexity (?P<perplexity>\S+)`)
	p.print(time.Second, "step=1 loss=1")
	p.print(time.Second, "perplexity 12.5")
	p.look(true)
	require.Equal(t, "{\"perplexity\":12.5}\n", p.metrics())

	p = newPrinting(t, PatternVariable+"=off")
	p.print(time.Second, "step=1 loss=1")
	p.look(true)
	require.Empty(t, p.metrics())
}

func TestReader_aProgramMayPrintBeforeItMakesItsFile(t *testing.T) {
	p := newPrinting(t)
	p.print(600*time.Millisecond, "{'loss': 1.5}")
	p.look(false)
	require.Empty(t, p.metrics())
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, shim.MetricsFile), []byte("{}\n"), 0o600))
	p.print(time.Second, "{'loss': 1.25}")
	p.look(false)
	p.look(true)
	require.Equal(t, "{}\n", p.metrics())

	p = newPrinting(t)
	p.print(600*time.Millisecond, "{'loss': 1.5}")
	p.look(false)
	p.agent()
	p.print(0, "{'loss': 1.25}")
	p.look(true)
	require.Equal(t, "{\"step\":1,\"loss\":1.5}\n{\"step\":2,\"loss\":1.25}\n", p.metrics(), "what waited is not lost with its agent")
}

// Agents die at any moment: between looks, and between what is recorded and what is appended. Each line counts once.
func TestReader_noLineIsMissingOrTwice(t *testing.T) {
	for seed := range uint64(10) {
		chance := rand.New(rand.NewPCG(seed, 0))
		p := newPrinting(t)
		var want strings.Builder
		for i := range 200 {
			p.print(time.Duration(100+chance.IntN(900))*time.Millisecond, "{'loss': %d.5}", i)
			fmt.Fprintf(&want, "{\"step\":%d,\"loss\":%d.5}\n", i+1, i)
			if chance.IntN(3) > 0 {
				continue
			}
			p.look(false)
			if chance.IntN(2) > 0 {
				continue
			}
			if chance.IntN(2) > 0 {
				// The last write was cut short.
				data, err := os.ReadFile(filepath.Join(p.dir, stateFile))
				if err == nil {
					require.NotEmpty(t, data)
					f := openFile(p.dir, false)
					require.NoError(t, os.Truncate(filepath.Join(p.dir, shim.MetricsFile), f.saved.Metrics-int64(chance.IntN(len(f.saved.Lines)+1))))
				}
			}
			p.agent()
		}
		p.look(true)
		require.Equal(t, want.String(), p.metrics(), "seed %d", seed)
	}
}

func TestReader_readsNoOldPartOfALongLogAtTheEnd(t *testing.T) {
	p := newPrinting(t)
	p.print(time.Second, "step=1 loss=1")
	rest := strings.Repeat(strings.Repeat("x", 1000)+"\n", 1000)
	for written := 0; written < maxLast+1<<20; written += len(rest) {
		p.stdout.Write(p.now, []byte(rest))
	}
	p.print(time.Second, "step=2 loss=1")
	p.look(true)
	require.Equal(t, "{\"step\":2,\"loss\":1}\n", p.metrics())
}

func TestReader_recordsHowFarItReadThoughNothingMatches(t *testing.T) {
	p := newPrinting(t)
	rest := strings.Repeat(strings.Repeat("x", 1000)+"\n", 1000)
	for range 6 {
		p.stdout.Write(p.now, []byte(rest))
	}
	p.look(false)
	require.Greater(t, openFile(p.dir, false).saved.Log, uint64(maxAgain))
	require.Empty(t, p.metrics())
}

func TestReader_triesAgainWhenTheDiskWasFull(t *testing.T) {
	p := newPrinting(t)
	p.print(time.Second, "step=1 loss=1")
	require.NoError(t, os.Mkdir(filepath.Join(p.dir, stateFile), 0o700)) // nothing can be recorded
	_, err := p.Look(t.Context(), p.now, false)
	require.Error(t, err)
	require.Empty(t, p.metrics())
	require.NoError(t, os.Remove(filepath.Join(p.dir, stateFile)))
	p.print(time.Second, "step=2 loss=1")
	p.look(true)
	require.Equal(t, "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n", p.metrics())
}

func BenchmarkScan(b *testing.B) {
	report := "1700000000000000000 o iter 10: loss 3.1234, time 12.30ms, mfu 1.25%\n"
	other := "1700000000000000000 o 2026-11-27 07:20:12 INFO worker 17 has read 8192 samples of shard 00042.tar, 3 of them too long\n"
	for _, c := range []struct {
		name string
		text string
		own  string
	}{
		{"nothing", strings.Repeat(other, 2000), ""},
		{"oneInAThousand", strings.Repeat(strings.Repeat(other, 999)+report, 2), ""},
		{"reports", strings.Repeat(report, 3000), ""},
		{"ownPattern", strings.Repeat(other, 2000), `iter (?P<step>\d+): loss (?P<loss>\S+)`},
	} {
		b.Run(c.name, func(b *testing.B) {
			patterns, err := Parse(c.own)
			require.NoError(b, err)
			r := &Reader{patterns: patterns}
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				r.scan(tasklog.Piece{Data: []byte(c.text)})
			}
		})
	}
}

// The state is the agent's, but the task may put anything in its place.
func TestFile_ofATaskThatPutsAnythingThere(t *testing.T) {
	for _, text := range []string{"", "{", `{"log":18446744073709551615}`, `{"metrics":-5}`, `{"metrics":3,"lines":"abcdef"}`, `{"metrics":9223372036854775807,"lines":"a"}`} {
		p := newPrinting(t)
		require.NoError(t, taskfile.Replace(p.dir, stateFile, []byte(text)))
		p.print(time.Second, "step=1 loss=1")
		for range 3 {
			_, err := p.Look(t.Context(), p.now, true)
			if err != nil {
				t.Logf("%s: %v", text, err)
			}
		}
	}
}
