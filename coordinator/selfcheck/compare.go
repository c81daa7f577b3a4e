package selfcheck

import "slices"

// comparison is the result of a comparison.
type comparison struct {
	// differ are the replicas with a different hash.
	differ []string
	// majority: more than half of all voters have the same hash. outvoted: this replica's hash is different.
	majority, outvoted bool
}

// compareHashes compares the hashes of some of the voters. self need not be one of them.
func compareHashes(self, own string, voters int, hashes map[string]string) comparison {
	var found comparison
	count := map[string]int{}
	for id, hash := range hashes {
		count[hash]++
		if hash != own && id != self {
			found.differ = append(found.differ, id)
		}
		if count[hash] > voters/2 {
			found.majority, found.outvoted = true, hash != own
		}
	}
	slices.Sort(found.differ)
	return found
}
