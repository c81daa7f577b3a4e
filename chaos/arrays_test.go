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

func TestArray_eachElementRunsOnceThoughTheLeaderIsKilled(t *testing.T) {
	const elements = 300
	c, rest := startStopped(t)
	ctx := within(t, 3*time.Minute)
	ran := filepath.Join(t.TempDir(), "ran")
	array := procs.Command("array", 0, "/bin/sh", "-c", `echo "$MIND_ARRAY_INDEX" >> `+ran)
	array["resource_config"] = map[string]any{"gpu_fraction": 0.1}
	array["scheduling_config"] = map[string]any{"array": map[string]any{"start": 0, "end": elements - 1, "max_parallel": 40}}
	id, err := rest.Submit(ctx, "array", array)
	require.NoError(t, err)

	lines := func() []string {
		text, err := os.ReadFile(ran)
		if err != nil {
			return nil
		}
		return strings.Fields(string(text))
	}
	eventually(t, "a third of it runs", func() bool { return len(lines()) >= elements/3 })
	leader, err := c.Leader(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Kill(leader))

	again, err := rest.Submit(ctx, "array", array)
	require.NoError(t, err)
	require.Equal(t, id, again, "the same request is the same array")
	j, err := rest.WaitEnded(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", j.State, j.ErrorMessage)
	seen := map[string]int{}
	for _, number := range lines() {
		seen[number]++
	}
	for i := range elements {
		require.Equal(t, 1, seen[fmt.Sprint(i)], "runs of element %d", i)
	}
	require.Len(t, seen, elements)
}
