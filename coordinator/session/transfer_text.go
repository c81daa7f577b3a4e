package session

import (
	"fmt"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work"
)

// Messages for users while the data and the model of their jobs are being transferred to the nodes.

// maxTransferPath limits how much of a path is shown.
const maxTransferPath = 300

// transferText describes a transfer in a few words; empty: there is none.
func transferText(r *v1.TransferReport) string {
	if r.GetPath() == "" {
		return ""
	}
	path := call.Clip(r.GetPath(), maxTransferPath)
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
	return call.Clip(text, work.MaxTransfer)
}

// unitOf returns the largest unit that is not larger than the number.
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
