package observe

import (
	"context"
	"time"
)

// listen adds what the task printed to its metrics file, unless the program writes that itself.
func (w *Watcher) listen(ctx context.Context, now time.Time, last bool) (more bool) {
	if w.noPattern != nil {
		w.say("mind: no metrics are read from what this task prints: %v", w.noPattern)
		w.noPattern = nil
	}
	more, err := w.printed.Look(ctx, now, last)
	if err != nil && !w.deaf {
		w.log.Error("cannot read the metrics that a task prints", "error", err)
	}
	w.deaf = err != nil
	return more && err == nil
}
