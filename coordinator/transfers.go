package coordinator

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm"
)

// What users are told while the data and the model of their jobs are on their way to the nodes.

// maxTransferPath bounds what is repeated of a path.
const maxTransferPath = 300

// transferText makes a few words of what an agent reports; empty: nothing is on its way.
func transferText(r *v1.TransferReport) string {
	if r.GetPath() == "" {
		return ""
	}
	path := clip(r.GetPath(), maxTransferPath)
	if r.GetWaiting() {
		return "waits its turn to fetch " + path
	}
	text := "fetching " + path + ": "
	done, total := max(0, r.GetDoneBytes()), max(0, r.GetTotalBytes())
	if unit, name := unitOf(max(done, total)); total > 0 {
		text += fmt.Sprintf("%s of %s %s", inUnits(done, unit), inUnits(total, unit), name)
	} else {
		text += fmt.Sprintf("%s %s so far", inUnits(done, unit), name)
	}
	if r.GetBytesPerSecond() > 0 {
		unit, name := unitOf(r.GetBytesPerSecond())
		text += fmt.Sprintf(", %s %s/s", inUnits(r.GetBytesPerSecond(), unit), name)
	}
	return clip(text, fsm.MaxTransfer)
}

// unitOf is the largest of which there is at least one.
func unitOf(bytes int64) (unit int64, name string) {
	unit, name = 1, "bytes"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if bytes < unit<<10 {
			break
		}
		unit, name = unit<<10, next
	}
	return unit, name
}

func inUnits(bytes, unit int64) string {
	if unit == 1 {
		return fmt.Sprint(bytes)
	}
	return fmt.Sprintf("%.1f", float64(bytes)/float64(unit))
}

// transferReason is what a job that is being prepared waits for; empty: nothing is on its way, as far as is known.
func transferReason(j *fsm.Job) string {
	all := transfers(j)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s; and %d more ranks", all[0], len(all)-1)
}

// transfers lists what is on its way to each rank.
func transfers(j *fsm.Job) []string {
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

// explainTransfers lists them for an explanation, whose reason says it all when there is one task.
func explainTransfers(j *fsm.Job) []string {
	if len(j.Tasks) == 1 {
		return nil
	}
	out := transfers(j)
	if more := len(out) - maxNamed; more > 0 {
		out = append(out[:maxNamed:maxNamed], fmt.Sprintf("%d more ranks wait for what they need", more))
	}
	return out
}
