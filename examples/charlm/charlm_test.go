package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func ownCorpus(t *testing.T) *corpus {
	t.Helper()
	c, err := newCorpus(ownText)
	require.NoError(t, err)
	return c
}

// TestLearn_gradientIsTheSlope compares each part of the gradient with the slope measured by moving one weight.
func TestLearn_gradientIsTheSlope(t *testing.T) {
	c := ownCorpus(t)
	m := newModel(len(c.letters), 7)
	s := m.newScratch()
	seen, next := c.train[100:100+context], c.train[100+context]
	gradient := make([]float64, len(m.params))
	parts := partsOf(gradient, m.letters)
	m.learn(seen, next, 1, &parts, s)

	lossAt := func() float64 {
		m.predict(seen, s)
		return -math.Log(s.p[next])
	}
	const h = 1e-5
	moved := 0
	for i := 0; i < len(m.params); i += 37 {
		was := m.params[i]
		m.params[i] = was + h
		up := lossAt()
		m.params[i] = was - h
		down := lossAt()
		m.params[i] = was
		slope := (up - down) / (2 * h)
		require.InDelta(t, slope, gradient[i], 1e-6+1e-4*math.Abs(slope), "weight %d", i)
		if math.Abs(slope) > 1e-4 {
			moved++
		}
	}
	require.Greater(t, moved, 100, "the check must see weights that matter")
	for name, part := range map[string][]float64{"embedding": parts.embedding, "w1": parts.w1, "b1": parts.b1, "w2": parts.w2, "b2": parts.b2} {
		require.NotZero(t, dot(part, part), name)
	}
}

func TestTrainer_resumedTrainingIsTheSameToTheBit(t *testing.T) {
	c := ownCorpus(t)
	whole := newTrainer(c, 3, 8)
	var wanted []float64
	for range 40 {
		whole.step()
		wanted = append(wanted, whole.Loss)
	}

	half := newTrainer(c, 3, 8)
	for range 20 {
		half.step()
	}
	path, err := half.save(t.TempDir())
	require.NoError(t, err)

	resumed := newTrainer(c, 3, 8)
	require.NoError(t, resumed.load(path))
	require.Equal(t, 20, resumed.Step)
	for i := range 20 {
		resumed.step()
		require.Equal(t, math.Float64bits(wanted[20+i]), math.Float64bits(resumed.Loss), "step %d", resumed.Step)
	}
	require.Equal(t, whole.model.params, resumed.model.params)
}

func TestTrainer_lossFalls(t *testing.T) {
	tr := newTrainer(ownCorpus(t), 1, 32)
	tr.step()
	first := tr.Loss
	require.InDelta(t, math.Log(float64(tr.model.letters)), first, 0.3, "at first every letter is as good as another")
	for range 150 {
		tr.step()
	}
	require.Less(t, tr.Loss, first-1)
}

func TestLoad_refusesWhatItCannotGoOnFromExactly(t *testing.T) {
	c := ownCorpus(t)
	tr := newTrainer(c, 3, 8)
	tr.step()
	path, err := tr.save(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, newTrainer(c, 3, 8).load(path))

	require.ErrorContains(t, newTrainer(c, 4, 8).load(path), "other options")
	require.ErrorContains(t, newTrainer(c, 3, 9).load(path), "other options")
	require.ErrorContains(t, newTrainer(c, 3, 8).load(t.TempDir()), "no checkpoint")

	state := filepath.Join(path, stateFile)
	b, err := os.ReadFile(state)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(state, b, 0o600))
	require.ErrorContains(t, newTrainer(c, 3, 8).load(path), "damaged")
	require.NoError(t, os.WriteFile(state, nil, 0o600))
	require.ErrorContains(t, newTrainer(c, 3, 8).load(path), "damaged")
}

// under runs the program as a job in dir and returns what it printed.
func under(t *testing.T, dir, resumeFrom string, o Options, stop <-chan os.Signal) string {
	t.Helper()
	o.Seed, o.Batch, o.LogEvery = 1, 8, 5
	var out bytes.Buffer
	err := run(o, Job{
		CheckpointDir: filepath.Join(dir, "checkpoints"), ResumeFrom: resumeFrom,
		MetricsFile: filepath.Join(dir, "metrics.jsonl"), EventsFile: filepath.Join(dir, "events.jsonl"),
	}, &out, stop)
	var stopped *stoppedError
	require.True(t, err == nil || (stop != nil && errors.As(err, &stopped)), "%v", err)
	return out.String()
}

func linesOf(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(s.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

func TestRun_tellsWhatAJobIsToTell(t *testing.T) {
	dir := t.TempDir()
	out := under(t, dir, "", Options{Steps: 20, CheckpointEvery: 10}, nil)
	for _, step := range []int{5, 10, 15, 20} {
		require.Equal(t, 1, strings.Count(out, fmt.Sprintf("\nstep %d/20 ", step)))
	}
	metrics := linesOf(t, filepath.Join(dir, "metrics.jsonl"))
	require.Len(t, metrics, 5)
	for i, step := range []float64{5, 10, 15, 20} {
		require.Equal(t, step, metrics[i]["step"])
		for _, key := range []string{"loss", "learning_rate", "tokens_per_second"} {
			require.Positive(t, metrics[i][key], key)
		}
	}
	var phases []any
	for _, event := range linesOf(t, filepath.Join(dir, "events.jsonl")) {
		if event["event"] == "phase" {
			phases = append(phases, event["phase"])
		} else {
			require.Equal(t, 20.0, event["total_steps"])
		}
	}
	require.Equal(t, []any{"TRAINING", "CHECKPOINTING", "TRAINING", "CHECKPOINTING", "TRAINING", "EVALUATING"}, phases)

	found, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	require.NoError(t, err)
	require.Len(t, found, 2, "nothing half-written is left")
	require.Equal(t, "checkpoint-10", found[0].Name())
	require.Equal(t, "checkpoint-20", found[1].Name())
}

func TestRun_savesAtASignalAndIsResumed(t *testing.T) {
	whole := under(t, t.TempDir(), "", Options{Steps: 20}, nil)

	for _, signal := range []os.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			under(t, dir, "", Options{Steps: 10}, nil)
			at10 := filepath.Join(dir, "checkpoints", "checkpoint-10")

			// A training that resumes from step 10 and is stopped before its first step has nothing new to save.
			stop := make(chan os.Signal, 1)
			stop <- signal
			out := under(t, dir, at10, Options{Steps: 20}, stop)
			require.Contains(t, out, "saving and leaving")
			require.NotContains(t, out, "saved")

			// A training that is stopped at a step without a checkpoint saves one of that step.
			elsewhere := t.TempDir()
			stop = make(chan os.Signal, 1)
			tr := newTrainer(ownCorpus(t), 1, 8)
			require.NoError(t, tr.load(at10))
			s := &session{Options: Options{Steps: 20, LogEvery: 5}, job: Job{CheckpointDir: elsewhere}, t: tr, out: writerFunc(func(p []byte) {
				if strings.HasPrefix(string(p), "step 15") {
					stop <- signal
				}
			}), stop: stop}
			var stopped *stoppedError
			require.ErrorAs(t, s.run(), &stopped)
			require.Equal(t, map[os.Signal]int{syscall.SIGUSR1: 0, syscall.SIGTERM: 143}[signal], stopped.code())
			require.DirExists(t, filepath.Join(elsewhere, "checkpoint-15"))

			out = under(t, dir, filepath.Join(elsewhere, "checkpoint-15"), Options{Steps: 20}, nil)
			require.Equal(t, lastLoss(whole), lastLoss(out))
		})
	}
}

func TestEvaluate_scoresAsTheTrainingDid(t *testing.T) {
	dir := t.TempDir()
	under(t, dir, "", Options{Steps: 20, CheckpointEvery: 10}, nil)
	metrics := linesOf(t, filepath.Join(dir, "metrics.jsonl"))
	wanted := metrics[len(metrics)-1]["held_out_loss"].(float64)

	job := Job{ModelPath: filepath.Join(dir, "checkpoints", "checkpoint-20"), EventsFile: filepath.Join(dir, "scores.jsonl")}
	require.NoError(t, run(Options{Evaluate: "held-out"}, job, io.Discard, nil))
	told := linesOf(t, job.EventsFile)
	require.Len(t, told, 1)
	require.Equal(t, []any{"evaluation_result", "held-out"}, []any{told[0]["event"], told[0]["benchmark"]})
	require.Positive(t, told[0]["num_samples"])
	require.Equal(t, map[string]any{"loss": wanted, "perplexity": math.Exp(wanted)}, told[0]["metrics"])

	job.ModelPath = filepath.Join(dir, "checkpoints", "checkpoint-10")
	require.NoError(t, run(Options{Evaluate: "held-out"}, job, io.Discard, nil))
	require.NotEqual(t, told[0]["metrics"], linesOf(t, job.EventsFile)[1]["metrics"], "another model has another score")

	job.ModelPath = dir
	require.ErrorContains(t, run(Options{Evaluate: "held-out"}, job, io.Discard, nil), "no checkpoint of charlm")
	require.ErrorContains(t, run(Options{Evaluate: "held-out"}, Job{}, io.Discard, nil), "MIND_MODEL_PATH")
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func lastLoss(out string) string {
	_, after, _ := strings.Cut(out, "\ndone: ")
	line, _, _ := strings.Cut(after, "\n")
	return line
}

func TestSave_writesAStepOnce(t *testing.T) {
	dir := t.TempDir()
	tr := newTrainer(ownCorpus(t), 1, 8)
	tr.step()
	path, err := tr.save(dir)
	require.NoError(t, err)
	again, err := tr.save(dir)
	require.NoError(t, err)
	require.Equal(t, path, again)
}

func TestCorpus_refusesTextsThatCannotBeLearned(t *testing.T) {
	_, err := newCorpus("too short")
	require.ErrorContains(t, err, "too short")
	var many strings.Builder
	for r := rune(0x4e00); r < 0x4e00+1000; r++ {
		many.WriteRune(r)
	}
	_, err = newCorpus(many.String())
	require.ErrorContains(t, err, "256")
}

func BenchmarkStep_batch64(b *testing.B) {
	c, err := newCorpus(ownText)
	require.NoError(b, err)
	tr := newTrainer(c, 1, 64)
	for b.Loop() {
		tr.step()
	}
}
