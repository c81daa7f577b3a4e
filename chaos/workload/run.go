package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// run is this process.
type run struct {
	spec Spec
	life Life
	// locks are held until the process ends.
	locks    []*os.File
	progress *os.File
	lineage  string
	hash     string
}

// Run does the work of one job and returns its exit code. It is the main function of a process that the node runs with
// the variables of a job.
func Run(s Spec, stdout io.Writer) (int, error) {
	if s.Print > 0 {
		return s.Exit, s.print(os.Getenv("MIND_JOB_ID"), stdout)
	}
	if s.Every <= 0 {
		s.Every = 200 * time.Millisecond
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGUSR1)
	r := &run{spec: s}
	if err := r.begin(); err != nil {
		return 0, err
	}
	end := time.Now().Add(s.Length)
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for step := r.life.Step; ; step++ {
		if err := r.step(step, stdout); err != nil {
			return 0, err
		}
		if s.finished() || (s.Length > 0 && !time.Now().Before(end)) {
			return s.Exit, r.note("ended")
		}
		for waiting := true; waiting; {
			select {
			case <-tick.C:
				waiting = false
			case sig := <-signals:
				if sig == syscall.SIGTERM {
					return 128 + int(syscall.SIGTERM), r.note("stopped")
				}
				// The signal is a notice. Nothing needs to be saved, because the last checkpoint has it all.
			}
		}
	}
}

func (r *run) begin() error {
	number := func(name string) int { n, _ := strconv.Atoi(os.Getenv(name)); return n }
	r.life = Life{
		Job: os.Getenv("MIND_JOB_ID"), Attempt: number("MIND_ATTEMPT"), Rank: number("MIND_NODE_RANK"), PID: os.Getpid(),
		GPUs: os.Getenv("CUDA_VISIBLE_DEVICES"), From: os.Getenv("MIND_RESUME_FROM"), Node: node(os.Getenv("MIND_METRICS_FILE")),
	}
	if r.life.Job == "" {
		return errors.New("MIND_JOB_ID is not set: this command is only for the jobs of an attack")
	}
	dir := jobDir(r.spec.Dir, r.life.Job)
	for _, d := range []string{dir, filepath.Join(r.spec.Dir, "gpus")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := r.lock(filepath.Join(dir, fmt.Sprintf("rank-%d.lock", r.life.Rank))); err != nil {
		return err
	}
	for gpu := range strings.SplitSeq(r.life.GPUs, ",") {
		if gpu == "" {
			continue
		}
		if err := r.lock(filepath.Join(r.spec.Dir, "gpus", r.life.Node+"-"+gpu+".lock")); err != nil {
			return err
		}
	}
	if err := r.resume(); err != nil {
		return err
	}
	r.life.Start = sinceBoot()
	text, err := json.Marshal(r.life)
	if err != nil {
		return err
	}
	if r.progress, err = os.OpenFile(r.life.progressFile(r.spec.Dir), os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	if err := r.note("alive"); err != nil {
		return err
	}
	return appendTo(filepath.Join(dir, livesFile), string(text))
}

// node returns the agent's name, which is in the path of the metrics file.
func node(metricsFile string) string {
	return filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(metricsFile))))
}

// sinceBoot returns the time since the machine started. It includes sleep, and the clock cannot be set.
func sinceBoot() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// lock takes a lock until this process ends, or records a violation with its holder.
func (r *run) lock(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	r.locks = append(r.locks, f)
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder := make([]byte, 256)
		n, _ := f.ReadAt(holder, 0)
		return r.violation("%s found %s held by %s", r.life, filepath.Base(path), holder[:n])
	}
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(r.life.String()), 0)
	return err
}

func (r *run) violation(format string, args ...any) error {
	return appendTo(filepath.Join(jobDir(r.spec.Dir, r.life.Job), violationsFile), fmt.Sprintf(format, args...))
}

// resume reads the checkpoint to resume from. A checkpoint that is not whole is a violation.
func (r *run) resume() error {
	if r.life.From == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(r.life.From, lineageFile))
	if err != nil || !strings.HasSuffix(string(text), "whole\n") {
		return r.violation("%s was to resume from %s, which is not whole: %q (%v)", r.life, r.life.From, text, err)
	}
	r.lineage = strings.TrimSuffix(string(text), "whole\n")
	last := strings.Fields(r.lineage)
	r.life.Step, err = strconv.Atoi(last[len(last)-1])
	return err
}

// step prints a line and then counts it, so that a killed life has printed at most one line more than it counted.
func (r *run) step(n int, stdout io.Writer) error {
	var text string
	text, r.hash = line(r.life.Job, r.life.Attempt, r.life.Rank, r.life.Lines, r.hash)
	if _, err := io.WriteString(stdout, text+"\n"); err != nil {
		return err
	}
	r.life.Lines++
	if err := r.note("alive"); err != nil {
		return err
	}
	if every := r.spec.CheckpointEvery; every > 0 && r.life.Rank == 0 && n > r.life.Step && n%every == 0 {
		return r.checkpoint(n)
	}
	return nil
}

// note replaces the record of this life, in one write.
func (r *run) note(state string) error {
	_, err := r.progress.WriteAt(fmt.Appendf(nil, "%20d %10d %-8s\n", sinceBoot(), r.life.Lines, state), 0)
	return err
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}
