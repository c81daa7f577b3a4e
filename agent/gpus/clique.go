package gpus

import "github.com/mindcoordinator/mind/agent/device"

// Clique returns the NVLink domain of several nodes that contains all GPUs of this node, as the driver last reported
// it; empty: none.
func (g *Monitor) Clique() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clique
}

// cliqueOf returns the clique of all devices, or "" if they are not all in the same one: a node with only some of its
// GPUs in a clique is in none.
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
