package agent

import "maps"

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
