package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/work/jobverbs"
)

func TestNoticeOf(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		limit  int32
		notice *int32
		want   int64
		bad    bool
	}{
		"none given":      {3600, nil, 0, false},
		"none wanted":     {3600, seconds(0), -1, false},
		"given":           {3600, seconds(300), int64(5 * time.Minute), false},
		"without a limit": {0, seconds(300), 0, true},
		"too long":        {300, seconds(300), 0, true},
		"negative":        {300, seconds(-1), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, job := &call.Faults{}, jobverbs.NewJob{}
			noticeOf(f, &v1.SchedulingConfig{MaxRuntimeSeconds: c.limit, NoticeBeforeLimitSeconds: c.notice}, &job)
			require.Equal(t, c.want, job.Notice)
			require.Equal(t, c.bad, f.Err() != nil)
		})
	}
}
