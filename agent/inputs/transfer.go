package inputs

import (
	"cmp"
	"context"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// transferInterval is how often the progress of a transfer is reported. Shorter transfers are not reported.
const transferInterval = 2 * time.Second

// tellTransfers reports the progress of a task's transfers. At the end it clears the last report.
func (in *Inputs) tellTransfers(ctx context.Context, owner string, tell func(*v1.TransferReport)) {
	ticker := time.NewTicker(cmp.Or(in.cfg.TellEvery, transferInterval))
	defer ticker.Stop()
	var told *v1.TransferReport
	var since time.Time
	for {
		select {
		case now := <-ticker.C:
			p, ok := in.cache.Progress(owner)
			if !ok {
				continue
			}
			r := &v1.TransferReport{Path: p.Path, DoneBytes: p.Done, TotalBytes: max(0, p.Total), Waiting: p.Waiting}
			if told.GetPath() == p.Path && now.After(since) {
				r.BytesPerSecond = max(0, int64(float64(p.Done-told.GetDoneBytes())/now.Sub(since).Seconds()))
			}
			tell(r)
			told, since = r, now
		case <-ctx.Done():
			if told != nil {
				tell(&v1.TransferReport{})
			}
			return
		}
	}
}
