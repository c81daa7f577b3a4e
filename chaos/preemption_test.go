package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// holding is the beginning of the script of a task that has all GPUs of its node: it fails if another task has them,
// too.
const holding = `
held=${MIND_OUTPUT_DIR%%/outputs/*}/held
mkdir "$held" || exit 99
await() { while [ ! -e "%[1]s/$1" ]; do sleep 0.05; done; }
leave() { rmdir "$held"; exit $1; }
`

// trained is a script that begins at the step of its checkpoint. On a notice it saves a checkpoint and ends, each when
// a file allows it.
const trained = holding + `
step=1
if [ -n "$MIND_RESUME_FROM" ]; then step=$(cat "$MIND_RESUME_FROM/step"); fi
echo "$step" >> "%[1]s/steps-%[2]s"
noticed() {
  : > "%[1]s/noticed-%[2]s"
  await save
  mkdir "$MIND_CHECKPOINT_DIR/tmp-41"
  echo 41 > "$MIND_CHECKPOINT_DIR/tmp-41/step"
  mv "$MIND_CHECKPOINT_DIR/tmp-41" "$MIND_CHECKPOINT_DIR/checkpoint-41"
  await "leave-%[2]s"
  leave 1
}
trap noticed USR1
trap 'leave 1' TERM
await finish
leave 0
`

const gang = holding + `
echo "$MIND_ATTEMPT" >> "%[1]s/ran-$MIND_NODE_RANK"
trap 'leave 1' TERM
await end
leave 0
`

// A gang preempts two jobs, and the leader is killed at each step of it: no GPU is used twice, the gang runs once, and
// the victims resume from the checkpoints that they saved on notice.
func TestPreemption_theLeaderIsKilledAtEachStep(t *testing.T) {
	c, rest := startStopped(t, "--agents", "2", "--gpus", "2xH100")
	ctx := within(t, 5*time.Minute)
	dir := t.TempDir()
	mark := func(name string) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }
	lines := func(name string) []string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.Fields(string(text))
	}
	job := func(id string) procs.Job {
		j, err := rest.Job(ctx, id)
		require.NoError(t, err)
		return j
	}
	victims := map[string]string{"a": "", "b": ""}
	for name := range victims {
		victim := procs.Command("victim-"+name, 2, "/bin/sh", "-c", fmt.Sprintf(trained, dir, name))
		victim["scheduling_config"] = map[string]any{"preemptible": true, "priority": 2, "grace_period_seconds": 120, "max_retries": 0}
		id, err := rest.Submit(ctx, "", victim)
		require.NoError(t, err)
		victims[name] = id
	}
	for name := range victims {
		eventually(t, name+" runs", func() bool { return len(lines("steps-"+name)) == 1 })
	}
	big := procs.Command("gang", 4, "/bin/sh", "-c", fmt.Sprintf(gang, dir))
	big["resource_config"] = map[string]any{"gpu_count": 4, "node_count": 2}
	big["scheduling_config"] = map[string]any{"priority": 9, "max_retries": 0}
	id, err := rest.Submit(ctx, "", big)
	require.NoError(t, err)

	checkpoints := func() (n int) {
		for _, victim := range victims {
			all, err := rest.Checkpoints(ctx, victim)
			require.NoError(t, err)
			n += len(all)
		}
		return n
	}
	for _, step := range []struct {
		what    string
		reached func() bool
		next    string
	}{
		{"the intent", func() bool { return strings.HasPrefix(job(id).Reason, "preempts 2 jobs") }, "nothing"},
		{"the notice", func() bool {
			_, a := os.Stat(filepath.Join(dir, "noticed-a"))
			_, b := os.Stat(filepath.Join(dir, "noticed-b"))
			return a == nil && b == nil
		}, "save"},
		{"the checkpoints", func() bool { return checkpoints() == 2 }, "leave-a"},
		{"the first release", func() bool { return job(victims["a"]).State == "QUEUED" }, "leave-b"},
		{"the grant", func() bool { return len(lines("ran-0"))+len(lines("ran-1")) == 2 }, "end"},
	} {
		eventually(t, step.what, step.reached)
		leader, err := c.Leader(ctx)
		require.NoError(t, err)
		require.NoError(t, c.Kill(leader))
		mark(step.next)
		require.NoError(t, c.Revive(ctx, leader))
	}
	j, err := rest.WaitEnded(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", j.State, j.ErrorMessage)
	require.Equal(t, 1, j.Attempt)
	require.Equal(t, []string{"1"}, lines("ran-0"))
	require.Equal(t, []string{"1"}, lines("ran-1"))
	for name, victim := range victims {
		eventually(t, name+" runs again", func() bool { return len(lines("steps-"+name)) == 2 })
		require.Equal(t, []string{"1", "41"}, lines("steps-"+name), "it goes on from where it was told to stop")
		require.Equal(t, 2, job(victim).Attempt)
	}
	mark("finish")
	for name, victim := range victims {
		j, err := rest.WaitEnded(ctx, victim)
		require.NoError(t, err)
		require.Equal(t, "SUCCEEDED", j.State, "%s: %s", name, j.ErrorMessage)
	}
}
