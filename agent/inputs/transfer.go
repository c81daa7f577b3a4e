package inputs

import (
	"cmp"
	"context"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// transferInterval is how often it is told how far a transfer is. What takes less is not worth telling.
const transferInterval = 2 * time.Second

// tellTransfers tells how far the data of a task is, while something is on its way. When it ends, it takes back what it said
// last.
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
