package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device/probe"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// fakeSMI is an nvidia-smi that prints recorded output, or hangs as long as a file exists.
const fakeSMI = `#!/bin/sh
while [ -e %[1]s/hang ]; do sleep 0.05; done
case "$1" in
--query-gpu=*) cat %[1]s/gpus;;
--query-compute-apps=*) cat %[1]s/apps;;
*) exit 1;;
esac
`

const twoGPUs = `0, GPU-5b7d4a1c-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 81559, 00000000:1B:00.0, 0, 97, 70123, 61, 612.35
1, GPU-5b7d4a1c-0000-0000-0000-000000000001, NVIDIA H100 80GB HBM3, 81559, 00000000:43:00.0, 0, 0, 0, 30, 71.02
`

// TestAWedgedDriver tests the whole chain: an agent, the process that asks the driver, and nvidia-smi.
func TestAWedgedDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		// A process that another test forks meanwhile would have the file open for writing, and exec would fail.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o755))
		require.NoError(t, os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
	}
	write("nvidia-smi", fmt.Sprintf(fakeSMI, dir))
	write("gpus", twoGPUs)
	write("apps", "")
	client := probe.New(probe.Config{Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Limit: 10 * time.Second, Pause: time.Millisecond})
	devices, err := client.List(context.Background())
	require.NoError(t, err)
	if len(devices) != 2 || devices[1].UUID != "GPU-5b7d4a1c-0000-0000-0000-000000000001" {
		require.NoError(t, client.Close())
		t.Skip("this machine has an NVIDIA driver")
	}
	l := newLeader(t)
	cfg := testConfig(t, l)
	cfg.Machine.Devices = client
	inProcess(t, cfg)
	steady, on := onGPUs(order("sleep", "1000"), 0), onGPUs(order("true"), 1)
	l.want(steady, on)
	pid := l.running(steady.GetTask())
	require.Zero(t, l.ended(on.GetTask()).GetExitCode())

	write("hang", "")
	blind := onGPUs(order("true"), 1)
	l.want(steady, blind)
	require.Equal(t, v1.ErrorType_DRAINED, l.ended(blind.GetTask()).GetErrorType())
	require.Equal(t, "driver does not answer", l.health(0, v1.GpuHealth_QUARANTINED))
	require.True(t, alive(pid))
	cpu := order("true")
	l.want(steady, cpu)
	require.Zero(t, l.ended(cpu.GetTask()).GetExitCode())
	require.NoError(t, os.Remove(filepath.Join(dir, "hang")))
	l.health(0, v1.GpuHealth_HEALTHY)

	// This is the process of a user who has logged in.
	foreign := exec.Command("sleep", "4321")
	require.NoError(t, foreign.Start())
	t.Cleanup(func() {
		_ = foreign.Process.Kill()
		_ = foreign.Wait()
	})
	write("apps", fmt.Sprintf("GPU-5b7d4a1c-0000-0000-0000-000000000001, %d, 512\n", foreign.Process.Pid))
	for {
		taken := onGPUs(order("true"), 1)
		l.want(steady, taken)
		why := l.ended(taken.GetTask()).GetErrorMessage()
		if strings.Contains(why, "does not answer") {
			continue // on a busy machine an answer may take longer than the agent waits
		}
		require.Contains(t, why, "GPU 1 (GPU-5b7d4a1c-0000-0000-0000-000000000001): process ")
		break
	}
	require.Contains(t, l.health(1, v1.GpuHealth_QUARANTINED), "(sleep 4321) uses it")
	write("apps", "")
	l.health(1, v1.GpuHealth_HEALTHY)
	require.True(t, alive(pid))
}
