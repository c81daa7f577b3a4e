package coordinator

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/notify"
)

// hooks stands for the receivers of webhooks, which all coordinators of a cluster reach.
type hooks struct {
	mu sync.Mutex
	// ids has the tries of each notice, and events what they were about.
	ids    map[string]int
	events []string
	bodies []map[string]any
	// arrived is called with each request before it is answered; nil: nothing is.
	arrived func(r *http.Request) error
	// answer is the code of the next answer; nil: 200.
	answer func() int
}

func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	h.mu.Lock()
	if h.ids[r.Header.Get("Webhook-Id")]++; h.ids[r.Header.Get("Webhook-Id")] == 1 {
		h.events = append(h.events, r.URL.Host+" "+body["event"].(string))
	}
	h.bodies = append(h.bodies, body)
	arrived, code := h.arrived, http.StatusOK
	if h.answer != nil {
		code = h.answer()
	}
	h.mu.Unlock()
	if arrived != nil {
		if err := arrived(r); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: code, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

func (h *hooks) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.events...)
}

// webhooks lets the coordinators of a cluster send to *.example.
func webhooks(t *testing.T, h *hooks) func(*Config) {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte("whsec_"+strings.Repeat("A", 44)), 0o600))
	h.ids = map[string]int{}
	return func(c *Config) {
		c.Webhooks = notify.Settings{SecretFile: path, Hosts: []string{"*.example"}, URL: "https://default.example/"}
		c.WebhookTransport = h
	}
}

// The leader dies after a notice was sent and before that was noted. The next one sends it again under the same id, and goes on.
func TestCores_noticesOutliveLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 3, webhooks(t, h))
		at := c.leader()
		_, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{
			Name: "told", NotifyUrl: "https://core.example/hook",
			Source: source(t, `[{"kind":"checkpoint","id":"a","prompt":"Ship it?","options":["yes"]},{"kind":"checkpoint","id":"b","prompt":"?","notify_url":"https://block.example/"}]`),
		})
		require.NoError(t, err)
		_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: "told"})
		require.NoError(t, err)
		c.eventually("the Core runs", func() bool { return c.coreOf(at, "told").GetStatus() == "running" })

		// The first request arrives, and its answer does not come before the leader dies.
		sent := make(chan struct{})
		var once sync.Once
		h.mu.Lock()
		h.arrived = func(r *http.Request) (err error) {
			once.Do(func() {
				close(sent)
				<-r.Context().Done()
				err = r.Context().Err()
			})
			return err
		}
		h.mu.Unlock()
		c.invoke(at, "told", nil, 0)
		<-sent
		old := at
		c.kill(old)
		at = c.leader()
		c.eventually("the next leader has sent and noted it", func() bool {
			return len(c.checkpoints(at)) == 1 && c.checkpoints(at)[0].GetNotificationSent()
		})
		c.start(old)
		h.mu.Lock()
		require.Len(t, h.ids, 1)
		for id, tries := range h.ids {
			require.Equal(t, 2, tries, id)
		}
		require.Equal(t, "Ship it?", h.bodies[0]["payload"].(map[string]any)["prompt"])
		require.Equal(t, "t1", h.bodies[0]["tenant_id"])
		h.mu.Unlock()

		at = c.leader()
		_, err = c.cores(at).ResolveDecision(c.ctx("t1", ""), &v1.ResolveDecisionRequest{CheckpointId: c.checkpoints(at)[0].GetId(), Resolution: "yes"})
		require.NoError(t, err)
		c.eventually("all were told", func() bool { return len(h.heard()) == 3 })
		require.ElementsMatch(t, []string{"core.example decision.created", "core.example decision.resolved", "block.example decision.created"}, h.heard())
		d := c.checkpoints(at)[0]
		c.eventually("it is noted", func() bool { return c.checkpoints(at)[0].GetNotifiedAt() != nil })
		require.Empty(t, d.GetNotifyError())
	})
}

func TestCores_noticesGoToTheURLOfTheOperator(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 1, webhooks(t, h))
		at := c.leader()
		c.core(at, "plain", `[{"kind":"checkpoint","id":"a","prompt":"?"}]`)
		c.invoke(at, "plain", nil, 0)
		c.eventually("it was told", func() bool { return len(h.heard()) == 1 })
		agent := c.agent("n1", 1)
		job := c.submit(at, sleeper(1, 1))
		c.eventually("the job runs", func() bool { return agent.of(job, 1) != nil })
		agent.reach(agent.of(job, 1), "check", 1)
		c.eventually("the gate was told", func() bool { return len(h.heard()) == 2 })
		require.Equal(t, []string{"default.example decision.created", "default.example decision.created"}, h.heard())
	})
}

func TestCores_urlsThatCannotBeNotifiedAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := &hooks{}
		c := startCluster(t, 1, webhooks(t, h))
		at := c.leader()
		create := func(url, body string) error {
			_, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "x", NotifyUrl: url, Source: source(t, body)})
			return err
		}
		const plain = `[{"kind":"checkpoint","id":"a","prompt":"?"}]`
		err := create("https://evil.org/", plain)
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
		require.ErrorContains(t, err, "notify_url: cannot be used: evil.org is not in webhook_hosts of the coordinators")
		require.ErrorContains(t, create("http://a.example/", plain), "its scheme has to be https")
		require.ErrorContains(t, create("", `[{"kind":"checkpoint","id":"a","prompt":"?","notify_url":"https://evil.org/"}]`),
			"source: the notify_url of the block a cannot be used: evil.org is not in webhook_hosts")
		require.NoError(t, create("https://a.example/", plain))
		_, err = c.cores(at).UpdateCore(c.ctx("t1", ""), &v1.UpdateCoreRequest{CoreId: "x", NotifyUrl: "none"})
		require.NoError(t, err)
		require.Empty(t, c.coreOf(at, "x").GetNotifyUrl())
	})
}

// A cluster without a secret and hosts says what would have to be set, and stores no URL that nobody will ever notify.
func TestCores_withoutWebhooksAURLIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		_, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "x", NotifyUrl: "https://a.example/"})
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
		require.ErrorContains(t, err, "this cluster sends no webhooks: an operator sets webhook_secret_file and webhook_hosts of the coordinators to allow them")
	})
}
