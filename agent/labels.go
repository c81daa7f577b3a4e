package agent

import (
	"maps"

	"github.com/mindcoordinator/mind/agent/isolation"
)

// cliqueLabel is the label with the NVLink domain of the node. It is the innermost level of the cluster's default
// topology policy.
const cliqueLabel = "mind.io/clique"

// withClique adds the clique that the driver reports to the labels. A configured label takes precedence.
func withClique(labels map[string]string, clique string) map[string]string {
	if _, given := labels[cliqueLabel]; given || clique == "" {
		return labels
	}
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[cliqueLabel] = clique
	return all
}

// withIsolation adds the level of isolation, the devices of tasks and whether jobs mount files to the labels, so that jobs get nodes that have them. No
// configured label takes precedence: the labels say how it is.
func withIsolation(labels map[string]string, has *isolation.Isolation) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all[isolation.Label] = string(has.Level)
	all[isolation.DeviceLabel] = has.Devices()
	delete(all, isolation.MountsLabel)
	if has.MountsForJobs() {
		all[isolation.MountsLabel] = isolation.MountsJobs
	}
	return all
}
