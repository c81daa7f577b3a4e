package cluster

import (
	"fmt"
	"strconv"
	"strings"
)

// sentence says in one sentence how the cluster is. Faults come first, the worst of them alone. The console says the same: one
// file of cases holds both to it.
func sentence(c *clusterSummary, r *replicas) string {
	var lost []string
	voters := 0
	for _, m := range c.Coordinators {
		if !m.Voter {
			continue
		}
		voters++
		if m.Liveness == "dead" || m.Liveness == "left" {
			lost = append(lost, m.ID)
		}
	}
	spare := voters - len(lost) - (voters/2 + 1)
	switch idle := c.NodesTotal - c.NodesReady; {
	case c.Leader == "" && spare >= 0:
		return "No leader: writes wait."
	case len(lost) > 0 && (c.Leader == "" || spare < 0):
		return joined(lost) + are(lost) + "no majority is left, and writes wait."
	case r != nil && r.Hashes == hashesDiffer && r.split() != "":
		return r.split()
	case len(lost) > 0 && spare == 0:
		further := "second"
		if len(lost) > 1 {
			further = "further"
		}
		return joined(lost) + are(lost) + "the cluster survives no " + further + " loss."
	case len(lost) > 0:
		return joined(lost) + are(lost) + "the cluster survives " + more(spare) + "."
	case c.GPUsTotal == 0:
		return "No node has registered a GPU: jobs wait until an agent does."
	case c.GPUsHealthy == c.GPUsTotal && idle > 0:
		takes := "nodes of %d take no work; "
		if idle == 1 {
			takes = "node of %d takes no work; "
		}
		works := c.works(voters, r)
		return fmt.Sprintf("%d "+takes, idle, c.NodesTotal) + strings.ToLower(works[:1]) + works[1:]
	}
	return c.works(voters, r)
}

// works says how the coordinators, the GPUs and the queue are.
func (c *clusterSummary) works(voters int, r *replicas) string {
	coordinators := fmt.Sprintf("All %d coordinators are alive", voters)
	switch {
	case voters == 1:
		coordinators = "The one coordinator works"
	case r != nil && r.Hashes == hashesAgree:
		coordinators = fmt.Sprintf("All %d coordinators agree", voters)
	}
	gpus := fmt.Sprintf("%d of %d GPUs work", c.GPUsHealthy, c.GPUsTotal)
	switch {
	case c.GPUsHealthy == c.GPUsTotal && c.GPUsTotal == 1:
		gpus = "the one GPU works"
	case c.GPUsHealthy == c.GPUsTotal:
		gpus = fmt.Sprintf("all %d GPUs work", c.GPUsTotal)
	}
	waiting := "no job waits"
	switch n := c.Jobs["QUEUED"] + c.Jobs["PENDING"]; {
	case n == 1:
		waiting = "1 job waits for GPUs"
	case n > 1:
		waiting = fmt.Sprintf("%d jobs wait for GPUs", n)
	}
	return coordinators + "; " + gpus + "; " + waiting + "."
}

// split names two coordinators whose states differ at one index; empty: there are none. Hashes of different versions, which
// begin differently, are not compared.
func (r *replicas) split() string {
	first := map[string]int{}
	for i := range r.All {
		format, _, _ := strings.Cut(r.All[i].Hash, "-")
		at, seen := first[format]
		switch {
		case r.All[i].Hash == "":
		case !seen:
			first[format] = i
		case r.All[i].Hash != r.All[at].Hash:
			return fmt.Sprintf("%s and %s disagree about the state after entry %d: keep the logs of both.", r.All[at].ID, r.All[i].ID, r.HashIndex)
		}
	}
	return ""
}

func are(lost []string) string {
	if len(lost) == 1 {
		return " is dead: "
	}
	return " are dead: "
}

func more(losses int) string {
	if losses == 1 {
		return "one more loss"
	}
	return strconv.Itoa(losses) + " more losses"
}

// joined is a list as people write it: "a, b and c".
func joined(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
