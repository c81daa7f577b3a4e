package agent

import "maps"

// cliqueLabel names the NVLink domain of the node; the policy of the cluster has it as the innermost level by default.
const cliqueLabel = "mind.io/clique"

// withClique adds the clique that the driver tells to the configured labels, which win.
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
