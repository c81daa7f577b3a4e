package coordinator

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/notify"
)

// told has a URL told of a job.
func told(req *v1.SubmitJobRequest, on ...string) *v1.SubmitJobRequest {
	req.NotifyConfig = &v1.NotifyConfig{Url: "https://hooks.example/secret-path", On: on}
	return req
}

// The leader dies after a notice was sent and before that was noted, and a job ends while there is no leader to send anything.
func TestJobNotices_outliveLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 3, webhooks(t, h))
		at := c.leader()
		sent := make(chan struct{})
		var once sync.Once
		h.arrived = func(r *http.Request) (err error) {
			once.Do(func() {
				close(sent)
				<-r.Context().Done()
				err = r.Context().Err()
			})
			return err
		}
		agent := c.agent("n1", 1)
		job := c.submit(at, told(sleeper(1, 1)))
		<-sent
		old := at
		c.kill(old)
		agent.end(job, 3)
		at = c.leader()
		c.eventually("all was told and noted", func() bool {
			j := c.get(at, job)
			return len(h.heard()) == 2 && j.GetState() == v1.JobState_FAILED && j.GetNotifiedAt() != nil
		})
		c.start(old)
		require.Equal(t, []string{"hooks.example job.started", "hooks.example job.failed"}, h.heard())
		h.mu.Lock()
		defer h.mu.Unlock()
		require.Len(t, h.ids, 2)
		require.Equal(t, 3, len(h.bodies), "the first one came twice, under the same id")
		last := h.bodies[2]
		require.Equal(t, "scaimind.job_failed", last["event_type"])
		require.Equal(t, "t1", last["tenant_id"])
		payload := last["payload"].(map[string]any)
		require.Equal(t, job, payload["job_id"])
		require.Equal(t, "FAILED", payload["status"])
		require.EqualValues(t, 3, payload["exit_code"])
		require.NotContains(t, payload, "command_config")
		require.NotContains(t, payload, "notify_config")
	})
}

func TestJobNotices_areTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 1, webhooks(t, h))
		at := c.leader()
		code := http.StatusInternalServerError
		h.answer = func() int { return code }
		c.agent("n1", 1)
		job := c.submit(at, told(sleeper(1, 1), "started"))
		c.eventually("the job says why", func() bool { return c.get(at, job).GetNotifyError() == "it answered 500" })
		require.Nil(t, c.get(at, job).GetNotifiedAt())
		h.mu.Lock()
		code = http.StatusOK
		h.mu.Unlock()
		c.eventually("it was told", func() bool { return c.get(at, job).GetNotifiedAt() != nil })
		require.Empty(t, c.get(at, job).GetNotifyError())
		require.Equal(t, []string{"started"}, c.get(at, job).GetNotifyConfig().GetOn())
		require.Equal(t, []string{"hooks.example job.started"}, h.heard())
	})
}

func TestJobNotices_ofOneThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 1, webhooks(t, h))
		at := c.leader()
		req := patient(told(sleeper(1, 1), "waiting", "ended"))
		req.NotifyConfig.WaitingAfterSeconds = proto.Int32(600)
		job := c.submit(at, req)
		time.Sleep(9 * time.Minute)
		require.Empty(t, h.heard())
		time.Sleep(time.Minute)
		c.eventually("it was told", func() bool { return len(h.heard()) == 1 })
		require.Equal(t, []string{"hooks.example job.waiting"}, h.heard())
		h.mu.Lock()
		require.NotEmpty(t, h.bodies[0]["payload"].(map[string]any)["reason"])
		h.mu.Unlock()
		time.Sleep(time.Hour)
		_, err := c.jobs(at).CancelJob(c.ctx("t1", ""), &v1.CancelJobRequest{JobId: job})
		require.NoError(t, err)
		c.eventually("its end was told", func() bool { return len(h.heard()) == 2 })
		require.Equal(t, "hooks.example job.ended", h.heard()[1])
	})
}

func TestJobNotices_ofAnArrayAreOfAllOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 1, webhooks(t, h))
		at := c.leader()
		agent := c.agent("n1", 8)
		req := told(sleeper(1, 1))
		req.SchedulingConfig = &v1.SchedulingConfig{Array: &v1.ArraySpec{Start: 0, End: 3}}
		array := c.submit(at, req)
		for i, code := range []int32{0, 1, 1, 0} {
			element := fmt.Sprintf("%s[%d]", array, i)
			c.eventually(element+" runs", func() bool { return agent.has(element) != nil })
			agent.end(element, code)
		}
		c.eventually("the array is over, and that was told", func() bool { return len(h.heard()) == 3 })
		require.Equal(t, []string{"hooks.example job.started", "hooks.example job.failed", "hooks.example job.ended"}, h.heard())
	})
}

func TestJobNotices_areRefusedWhereNobodyWouldBeTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, webhooks(t, &hooks{}))
		at := c.leader()
		refused := func(change func(n *v1.NotifyConfig)) string {
			req := told(patient(sleeper(1, 1)))
			change(req.NotifyConfig)
			_, err := c.jobs(at).SubmitJob(c.ctx("t1", ""), req)
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
			return grpcstatus.Convert(err).Message()
		}
		require.Contains(t, refused(func(n *v1.NotifyConfig) { n.Url = "https://evil.org/" }), "notify_config.url: cannot be used: evil.org is not in webhook_hosts of the coordinators")
		require.Contains(t, refused(func(n *v1.NotifyConfig) { n.Url = "" }), "notify_config.url: is required")
		require.Contains(t, refused(func(n *v1.NotifyConfig) { n.On = []string{"finished"} }), `notify_config.on: "finished" must be started, failed, ended or waiting`)
		require.Contains(t, refused(func(n *v1.NotifyConfig) { n.WaitingAfterSeconds = proto.Int32(5) }), "needs waiting in notify_config.on")
	})
}

func TestJobNotices_withoutWebhooksAURLIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, func(c *Config) { c.Webhooks = notify.Settings{} })
		_, err := c.jobs(c.leader()).SubmitJob(c.ctx("t1", ""), told(patient(sleeper(1, 1))))
		require.ErrorContains(t, err, "this cluster sends no webhooks: an operator sets webhook_secret_file and webhook_hosts")
	})
}
