package credentials_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

var away = grpcstatus.Error(codes.Unavailable, "no leader")

// change changes a session at the coordinators.
func (s *sessions) change(id string, how func(*v1.Session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, made := range s.made {
		if made.GetSessionId() == id {
			how(made)
		}
	}
}

func (s *sessions) then(meanwhile func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meanwhile = meanwhile
}

// A browser that signs out forgets its cookie, even if no leader can end the session now.
func TestSessions_signOutWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		keepSessions(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		cookie, _ := signIn(g, gatewaytest.TokenAll)
		c.On("RevokeSession", func(context.Context, any) (any, error) { return nil, away })
		a := page(g, "DELETE", "/v1/session", cookie)
		require.Equal(t, 503, a.Code, a.Body)
		require.Equal(t, []string{"mind=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}, a.Header["Set-Cookie"])
	})
}

// The name of a browser is kept whole, as far as there is room, and what is no text makes no sign-in fail.
func TestSessions_namesOfBrowsers(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	long := strings.Repeat("ü", 200)
	for said, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36":                                   "",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36 Edg/143.0.3650.80":       "",
		"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:146.0) Gecko/20100101 Firefox/146.0":                                                          "",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15":                   "",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1": "",
		"a\xffb":   "a?b",
		long:       long[:256],
		"x" + long: "x" + long[:254] + "?",
	} {
		if want == "" {
			want = said
		}
		signIn(g, gatewaytest.TokenAll, "User-Agent", said)
		calls := c.Calls()
		require.Equal(t, want, calls[len(calls)-1].Request.(*v1.CreateSessionRequest).GetUserAgent())
	}
}

// Only a session that was revoked here is asked about again.
func TestSessions_oneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		gone, id := signIn(g, gatewaytest.TokenAll)
		ofToken, idOfToken := signIn(g, gatewaytest.TokenAll)
		going, _ := signIn(g, gatewaytest.TokenAll)
		kept.change(idOfToken, func(s *v1.Session) { s.TokenId = "tok_1" })
		for _, cookie := range []string{gone, ofToken, going} {
			require.Equal(t, 200, page(g, "GET", "/v1/session", cookie).Code)
		}
		kept.asked()
		silent := func(cookies ...string) {
			for _, cookie := range cookies {
				require.Equal(t, 200, page(g, "GET", "/v1/session", cookie).Code)
			}
			questions, _ := kept.asked()
			require.Zero(t, questions)
		}
		token := []string{"Authorization", "Bearer " + gatewaytest.TokenAll}
		require.Equal(t, 200, page(g, "DELETE", "/v1/sessions/"+id, "", token...).Code)
		silent(ofToken, going)
		require.Equal(t, 401, page(g, "GET", "/v1/session", gone).Code)

		kept.revoke(idOfToken)
		require.Equal(t, 200, page(g, "DELETE", rest.Prefix+"/tokens/tok_1", "", token...).Code)
		kept.asked()
		silent(going)
		require.Equal(t, 401, page(g, "GET", "/v1/session", ofToken).Code)
	})
}

// An answer that is in flight when the session is revoked here is good for the request that asked, and for no later one.
func TestSessions_revokedWhileAsked(t *testing.T) {
	for name, used := range map[string]bool{"a session that is new to this gateway": false, "one that it knows": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				kept := keepSessions(c)
				g := gatewaytest.NewGate(t, gatewaytest.Config(c))
				cookie, id := signIn(g, gatewaytest.TokenAll)
				if used {
					require.Equal(t, 200, page(g, "GET", "/v1/session", cookie).Code)
					time.Sleep(time.Second)
				}
				kept.then(func() {
					require.Equal(t, 200, page(g, "DELETE", "/v1/sessions/"+id, "", "Authorization", "Bearer "+gatewaytest.TokenAll).Code)
				})
				require.Equal(t, 200, page(g, "GET", "/v1/session", cookie).Code)
				require.Equal(t, 401, page(g, "GET", "/v1/session", cookie).Code)
			})
		})
	}
}

// However many sessions are revoked while one is asked about, it is asked about once.
func TestSessions_revokedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		cookie, _ := signIn(g, gatewaytest.TokenAll)
		var others []string
		for range 10 {
			_, id := signIn(g, gatewaytest.TokenAll)
			others = append(others, id)
		}
		var revoke func()
		revoke = func() {
			if len(others) > 0 {
				require.Equal(t, 200, page(g, "DELETE", "/v1/sessions/"+others[0], "", "Authorization", "Bearer "+gatewaytest.TokenAll).Code)
				others = others[1:]
				kept.then(revoke)
			}
		}
		kept.then(revoke)
		require.Equal(t, 200, page(g, "GET", "/v1/session", cookie).Code)
		questions, _ := kept.asked()
		require.Equal(t, 1, questions)
	})
}

// A session whose time is over has ended whether or not somebody can be asked about it.
func TestSessions_endWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		c.Watch = func(_ *v1.WatchEventsRequest, s grpc.ServerStreamingServer[v1.WatchEventsResponse]) error {
			_ = s.SendHeader(metadata.Pairs(status.KeyIndex, "7"))
			<-s.Context().Done()
			return s.Context().Err()
		}
		g, running := gatewaytest.NewGate(t, gatewaytest.Config(c)), runOnLoopback(t, gatewaytest.Config(c))
		short, id := signIn(g, gatewaytest.TokenAll)
		going, _ := signIn(g, gatewaytest.TokenAll)
		ends := time.Now().Add(time.Minute)
		kept.change(id, func(s *v1.Session) { s.ExpiresAt = timestamppb.New(ends) })
		var streams []func() gatewaytest.Event
		for _, cookie := range []string{short, going} {
			next, resp := running.Stream("/events", "Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Host", "localhost")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, 200, page(g, "GET", rest.Prefix+"/queue?consistency=stale", cookie).Code)
			streams = append(streams, next)
		}
		kept.fail(away, nil)
		last := gatewaytest.Event{}
		for last.Name != "error" {
			last = streams[0]()
			require.NotEqual(t, gatewaytest.Event{}, last)
		}
		require.Contains(t, last.Data, "AUTH_TOKEN_INVALID")
		require.LessOrEqual(t, time.Since(ends), time.Second)
		require.Equal(t, 401, page(g, "GET", rest.Prefix+"/queue?consistency=stale", short).Code)
		require.Equal(t, 200, page(g, "GET", rest.Prefix+"/queue?consistency=stale", going).Code)
	})
}

// Of sessions that are asked about together without a leader, those that a coordinator knows go on.
func TestSessions_askedTogetherWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		const path = rest.Prefix + "/queue?consistency=stale"
		lost, id := signIn(g, gatewaytest.TokenAll)
		going, _ := signIn(g, gatewaytest.TokenAll)
		for _, cookie := range []string{lost, going} {
			require.Equal(t, 200, page(g, "GET", path, cookie).Code)
		}
		time.Sleep(time.Second)
		kept.fail(away, nil)
		kept.revoke(id) // The coordinator that answers alone has never heard of it.
		answered := make(chan int, 1)
		go func() { answered <- page(g, "GET", path, lost).Code }()
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, answered)
		require.Equal(t, 200, page(g, "GET", path, going).Code)
		require.Equal(t, 503, <-answered)
		_, about := kept.asked()
		require.Equal(t, 4, about, "they were asked about together")
	})
}
