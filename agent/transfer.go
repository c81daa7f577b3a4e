package agent

import (
	"cmp"
	"context"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// transferInterval is how often it is told how far a transfer is. What takes less is not worth telling.
const transferInterval = 2 * time.Second

// tellTransfers reports how far the data of a task is, while something is on its way. When it ends, it takes back what it said
// last.
func (a *agent) tellTransfers(ctx context.Context, k key) {
	ticker := time.NewTicker(cmp.Or(a.cfg.Data.TellEvery, transferInterval))
	defer ticker.Stop()
	var told *v1.TransferReport
	var since time.Time
	tell := func(r *v1.TransferReport) {
		report := &report{body: &v1.Report{Task: k.ref(), Body: &v1.Report_Transfer{Transfer: r}}, latest: "transfer"}
		a.outbox.add(report)
	}
	for {
		select {
		case now := <-ticker.C:
			p, ok := a.data.Progress(k.name())
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
