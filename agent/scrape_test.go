package agent

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/agent/device"
	"github.com/mindcoordinator/mind/agent/device/sim"
)

// stuckDriver answers until a test takes its lock. Unlike Mind's inventories, it then does not return even when its
// caller gives up.
type stuckDriver struct {
	device.Inventory
	sync.RWMutex
}

func (d *stuckDriver) List(ctx context.Context) ([]device.Device, error) {
	d.RLock()
	defer d.RUnlock()
	return d.Inventory.List(ctx)
}

func (d *stuckDriver) Read(ctx context.Context) ([]device.Reading, error) {
	d.RLock()
	defer d.RUnlock()
	return d.Inventory.Read(ctx)
}

// The metrics and health of an agent must not depend on the GPU driver or the leader.
func TestMetrics_waitForNobody(t *testing.T) {
	l := newLeader(t)
	cfg := testConfig(t, l)
	gpus, err := sim.New("n1", "2xH100")
	require.NoError(t, err)
	driver := &stuckDriver{Inventory: gpus}
	cfg.HTTPAddr, cfg.Machine.Devices = "127.0.0.1:0", driver
	stop := inProcess(t, cfg)
	url := "http://" + l.hello(0).GetHttpAddr() + "/metrics"
	client := &http.Client{Timeout: time.Minute} // far longer than a scrape takes
	scrape := func() string {
		response, err := client.Get(url)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(body)
	}
	const working = `mind_gpu_utilization_ratio{gpu="1",model="NVIDIA H100 80GB HBM3",uuid="GPU-sim-n1-1"} 0`
	for !strings.Contains(scrape(), working) {
		time.Sleep(10 * time.Millisecond) // between two looks: nobody says that the sensors were read
	}
	driver.Lock()
	defer stop()
	defer driver.Unlock()
	l.server.Stop()
	for body := scrape(); !strings.Contains(body, "\nmind_agent_in_session 0\n"); body = scrape() {
		require.Contains(t, body, "mind_gpu_quarantined{", "what is known is said")
		time.Sleep(10 * time.Millisecond) // between two looks: nobody says that the session was lost
	}
}
