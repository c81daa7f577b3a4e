package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/scheduler/whatif"
)

// Every key of a change has words.
func TestRemedy_hasWordsForEveryKey(t *testing.T) {
	for _, key := range whatif.Keys() {
		value := map[string]string{
			"held": "false", "queue.max_gpus_by_type": "none", "maintenance": "none", "reservations": "none", "protection": "none",
		}[key]
		if value == "" {
			value = "7"
		}
		got := remedy(&whatif.Remedy{Suppose: []string{key + "=" + value}, Answer: &whatif.Answer{}})
		require.Regexp(t, `^with [a-zA-Z0-9 ]+$`, got.GetMessage(), key)
	}
	held := remedy(&whatif.Remedy{Suppose: []string{"held=false"}, Answer: &whatif.Answer{}})
	require.Equal(t, "with nothing that holds it", held.GetMessage())
}
