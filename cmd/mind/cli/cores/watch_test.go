package cores_test

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

// The watch follows the events of executions, and goes on without them for denied callers.
func TestWatch_followsEvents(t *testing.T) {
	for _, may := range []bool{true, false} {
		g := clitest.NewGateway(t)
		var topic atomic.Value
		var once sync.Once
		opened := make(chan struct{})
		g.On("GET /events", func(w http.ResponseWriter, r *http.Request) {
			topic.Store(r.URL.Query().Get("topic"))
			defer once.Do(func() { close(opened) })
			if !may {
				clitest.Refuse(403, "AUTHZ_PERMISSION_DENIED", "no")(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 7.0\nevent: execution\ndata: {\"name\":\"exec_1\"}\n\nevent: error\ndata: {\"error\":\"stream ended\"}\n\n")
		})
		g.On("GET "+prefix+"/events", clitest.Answer(200, `{"events":[],"next_cursor":""}`))
		g.On(get, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-opened:
				clitest.Answer(200, completed)(w, r)
			default:
				clitest.Answer(200, running)(w, r)
			}
		})
		clitest.Done(t, "execution", "watch", "exec_1")
		require.Equal(t, "execution", topic.Load())
	}
}
