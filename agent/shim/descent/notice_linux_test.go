package descent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A notice goes to the topmost processes that handle the signal.
func TestToNotice(t *testing.T) {
	const trap, wait = "trap : USR1; ", "while :; do sleep 0.05; done"
	up := func(name string) string {
		return "echo $$ > $D/" + name + ".tmp; mv $D/" + name + ".tmp $D/" + name + "; "
	}
	for name, tt := range map[string]struct {
		command, child, grandchild string
		want                       []string
	}{
		"the command handles it": {trap, trap, "", []string{"command"}},
		"its children do":        {"", trap, trap, []string{"child", "child2"}},
		"their children do":      {"", "", trap, []string{"grandchild"}},
		"nobody does":            {"", "", "", []string{"command"}},
		"nobody may":             {"trap '' USR1; ", "", "", []string{"command"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"grandchild.sh": tt.grandchild + up("grandchild") + wait,
				"child2.sh":     tt.child + up("child2") + wait,
				"child.sh":      tt.child + "sh $D/grandchild.sh & " + up("child") + wait,
				"command.sh":    tt.command + "sh $D/child.sh & sh $D/child2.sh & " + up("command") + wait,
			} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			cmd := exec.Command("sh", filepath.Join(dir, "command.sh"))
			cmd.Env = append(os.Environ(), "D="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			require.NoError(t, cmd.Start())
			t.Cleanup(func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
			})
			pids := map[string]int{}
			for _, who := range []string{"command", "child", "child2", "grandchild"} {
				require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, who)); return err == nil }, time.Minute, time.Millisecond)
				text, err := os.ReadFile(filepath.Join(dir, who))
				require.NoError(t, err)
				pids[who], err = strconv.Atoi(strings.TrimSpace(string(text)))
				require.NoError(t, err)
			}
			var want []int
			for _, who := range tt.want {
				want = append(want, pids[who])
			}
			require.ElementsMatch(t, want, ToNotice(cmd.Process.Pid, syscall.SIGUSR1))
		})
	}
	require.False(t, handles(1<<30, syscall.SIGUSR1), "who is not there")
}
