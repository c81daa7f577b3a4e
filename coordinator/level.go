package coordinator

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/event"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/raftnode/store"
)

// The feature level is stored beside the log, because it is checked before the state is loaded: it decides whether this
// version of mind may be started here at all.

// noteLevel is called on the applying goroutine after each entry. It writes a file only after the level was raised.
func (s *server) noteLevel(v *fsm.View, _ []event.Event) {
	at := v.Level()
	if at <= max(s.noted, level.Base) || s.levelDir == "" {
		return
	}
	s.noted = at
	if err := store.NoteLevel(s.levelDir, uint32(at)); err != nil {
		s.log.Warn("the feature level was not noted; the next start tries again", "level", at, "error", err)
	}
}

// fitsLevel refuses the data of a cluster whose level this version of mind does not support. A file that cannot be read
// refuses nothing, because the log has the level too.
func fitsLevel(dir string) error {
	if dir == "" {
		return nil
	}
	if noted, err := store.NotedLevel(dir); err == nil && noted > uint32(level.Supported().Newest) {
		return fmt.Errorf("the cluster is at feature level %d, and this version of mind supports levels up to %d: start the version that wrote its data, or a newer one", noted, level.Supported().Newest)
	}
	return nil
}
