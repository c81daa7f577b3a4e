package jobview

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm/work"
)

// The texts for users while the data and the model of their jobs are transferred to the nodes.

// transferReason returns the transfers that a job waits for while it is prepared; empty: none is known.
func transferReason(j *work.Job) string {
	all := transfers(j)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s; and %d more ranks", all[0], len(all)-1)
}

// transfers lists the transfers to each rank.
func transfers(j *work.Job) []string {
	var out []string
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Transfer == "" || !j.Live() {
			continue
		}
		text := t.Transfer + ", node " + t.Node
		if len(j.Tasks) > 1 {
			text = fmt.Sprintf("rank %d: %s", t.Rank, text)
		}
		out = append(out, text)
	}
	return out
}

// explainTransfers lists the transfers of a job with several tasks. With one task, the reason of the job says it
// already.
func explainTransfers(j *work.Job) []string {
	if len(j.Tasks) == 1 {
		return nil
	}
	out := transfers(j)
	if more := len(out) - maxNamed; more > 0 {
		out = append(out[:maxNamed:maxNamed], fmt.Sprintf("%d more ranks wait for what they need", more))
	}
	return out
}
