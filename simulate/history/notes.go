package history

import (
	"fmt"
	"strings"
	"time"
)

// mostNamed limits how many nodes a note names.
const mostNamed = 5

// Notes returns sentences that say what was simulated, and what was estimated or left out.
func (a *About) Notes() []string {
	notes := []string{fmt.Sprintf("%s of %s on %s, from %s to %s: %d finished, %d running, %d waiting",
		count(a.Jobs, "job"), count(a.Tenants, "tenant"), count(a.Nodes, "node"), a.Since.Format(time.DateTime), a.Until.Format(time.DateTime)+" UTC",
		a.Finished, a.Running, a.Waiting)}
	if n := a.Running + a.Waiting; n > 0 {
		notes = append(notes, fmt.Sprintf("how long the %s that are not over will take is not known: it was predicted from jobs like them, within their limits", count(n, "job")))
	}
	if a.Forgotten > 0 {
		notes = append(notes, fmt.Sprintf("the cluster no longer knows how long %s of arrays took: as long as half of the others of their array, it was assumed", count(a.Forgotten, "task")))
	}
	if a.Carried > 0 {
		notes = append(notes, fmt.Sprintf("%s were there before: they arrive at the beginning, with what was left of them", count(a.Carried, "job")))
	}
	if a.NeverRan > 0 {
		notes = append(notes, fmt.Sprintf("left out: %s that never ran", count(a.NeverRan, "job")))
	}
	if a.TooLarge > 0 {
		notes = append(notes, fmt.Sprintf("left out: %s that the nodes of today could not hold", count(a.TooLarge, "job")))
	}
	if n := len(a.NodesOut); n > 0 {
		named := strings.Join(a.NodesOut[:min(n, mostNamed)], ", ")
		if n > mostNamed {
			named += ", ..."
		}
		notes = append(notes, fmt.Sprintf("left out: %s, lost or drained: %s", count(n, "node"), named))
	}
	return notes
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
