package admission

import (
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
	"github.com/mindcoordinator/mind/fsm/work/notices"
)

// noticesOf reads which notices a URL gets of a job; nil: none.
func noticesOf(f *call.Faults, req *v1.SubmitJobRequest) *notices.Wanted {
	n := req.GetNotifyConfig()
	if n == nil {
		return nil
	}
	w := &notices.Wanted{URL: n.GetUrl(), Wait: notices.DefaultWait}
	if w.URL == "" {
		f.Bad("notify_config.url", "is required: an https URL that takes signed webhooks")
	}
	for _, name := range n.GetOn() {
		e, ok := notices.Parse(name)
		if !ok {
			f.Bad("notify_config.on", "%q must be started, failed, ended or waiting", name)
			continue
		}
		w.On = w.On.With(e)
	}
	if len(n.GetOn()) == 0 {
		w.On = notices.Default
	}
	if s := n.WaitingAfterSeconds; s != nil {
		switch {
		case !w.On.Has(notices.Waiting):
			f.Bad("notify_config.waiting_after_seconds", "needs waiting in notify_config.on")
		case *s < 1 || *s > maxSeconds:
			f.Bad("notify_config.waiting_after_seconds", "%d must be at least 1 and at most %d", *s, maxSeconds)
		}
		w.Wait = int64(*s) * int64(time.Second)
	}
	return w
}

// checkNotices refuses notices that this cluster does not send, or not to this URL.
func (a *Admission) checkNotices(job *jobverbs.NewJob) error {
	if job.Notices == nil || job.Notices.URL == "" {
		return nil
	}
	if err := a.notifies(job.Notices.URL); err != nil {
		return call.Bad("notify_config.url", "cannot be used: %v", err)
	}
	return jobverbs.NoticeGate.Check(a.state.View().Level())
}
