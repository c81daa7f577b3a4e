package upgrade

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/level"
)

// Levels reads a range from a message. The range of a coordinator that sends none is empty.
func Levels(oldest, newest uint32) level.Range {
	return level.Range{Oldest: level.Level(min(oldest, 255)), Newest: level.Level(min(newest, 255))}
}

// Unfit returns why a coordinator that supports a range of levels cannot be in a cluster of a level; empty: it can.
func Unfit(now level.Level, supports level.Range) string {
	if supports == (level.Range{}) {
		return "it does not say which feature levels its version of mind supports: start it with the version of the other coordinators"
	}
	if now > supports.Newest {
		return fmt.Sprintf("its version of mind supports feature levels up to %d, and the cluster is at %d: start it with the version of the other coordinators", supports.Newest, now)
	}
	return fmt.Sprintf("its version of mind supports feature levels from %d on, and the cluster is at %d: upgrade all coordinators to a version between first", supports.Oldest, now)
}

// next returns the highest level that all coordinators support, and why it is not the newest one of this version;
// empty: it is.
func next(now, newest level.Level, coordinators []*v1.SupportedLevels) (to level.Level, why string) {
	to = newest
	var waits []string
	for _, c := range coordinators {
		switch its := level.Level(min(c.GetNewestLevel(), 255)); {
		case its == 0:
			to = min(to, now)
			waits = append(waits, fmt.Sprintf("%s does not say what it supports (%s)", c.GetCoordinatorId(), c.GetReason()))
		case its < newest:
			to = min(to, its)
			waits = append(waits, fmt.Sprintf("%s supports levels up to %d (%s)", c.GetCoordinatorId(), its, runs(c.GetProgram())))
		}
	}
	slices.Sort(waits)
	return max(to, now), strings.Join(waits, "; ")
}

func runs(program string) string {
	if program == "" {
		return "it runs an older version of mind"
	}
	return "it runs mind " + program
}
