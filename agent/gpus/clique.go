package gpus

import "github.com/mindcoordinator/mind/agent/device"

// Clique is the NVLink domain of several nodes that all GPUs of this one are in, as the driver last said; empty: none.
func (g *Monitor) Clique() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clique
}

// cliqueOf is the clique that all devices have in common. A node of which only a part has joined is in none.
func cliqueOf(devices []device.Device) string {
	if len(devices) == 0 {
		return ""
	}
	for i := range devices {
		if devices[i].Clique != devices[0].Clique {
			return ""
		}
	}
	return devices[0].Clique
}
