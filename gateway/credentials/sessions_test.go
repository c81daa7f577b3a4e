package credentials_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// sessions makes a coordinator keep sessions like a real one, whose tests are in package coordinator.
type sessions struct {
	mu   sync.Mutex
	made map[string]*v1.Session // by digest
	// questions counts the calls of VerifySessions, and about the sessions in them.
	questions, about int
	// leader and alone are the errors of the leader, and of a coordinator without one.
	leader, alone error
	// meanwhile, if set, is called once before the next answer of VerifySessions is sent.
	meanwhile func()
}

func keepSessions(c *gatewaytest.Coordinator) *sessions {
	s := &sessions{made: map[string]*v1.Session{}}
	c.On("CreateSession", func(ctx context.Context, r any) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		request := r.(*v1.CreateSessionRequest)
		s.mu.Lock()
		defer s.mu.Unlock()
		made := &v1.Session{
			SessionId: fmt.Sprintf("ses_%d", len(s.made)+1), TenantId: md[status.KeyTenant][0], UserId: md[status.KeyUser][0], Permissions: request.GetPermissions(),
			CreatedAt: timestamppb.Now(), ExpiresAt: timestamppb.New(time.Now().Add(12 * time.Hour)), Address: request.GetAddress(), UserAgent: request.GetUserAgent(),
		}
		if ends := request.GetExpiresAt(); ends != nil {
			made.ExpiresAt = ends
		}
		s.made[string(request.GetDigest())] = made
		return &v1.CreateSessionResponse{Session: made}, nil
	})
	c.On("VerifySessions", func(ctx context.Context, r any) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		s.mu.Lock()
		defer func() {
			meanwhile := s.meanwhile
			s.meanwhile = nil
			s.mu.Unlock()
			if meanwhile != nil {
				meanwhile()
			}
		}()
		err := s.leader
		if len(md[status.KeyConsistency]) > 0 {
			err = s.alone
		}
		if err != nil {
			return nil, err
		}
		reply := &v1.VerifySessionsResponse{}
		s.questions++
		for _, digest := range r.(*v1.VerifySessionsRequest).GetDigests() {
			s.about++
			answer := &v1.VerifiedSession{}
			if made := s.made[string(digest)]; made != nil && time.Now().Before(made.GetExpiresAt().AsTime()) {
				answer.Session, answer.Member = made, []string{"group:g1"}
			}
			reply.Sessions = append(reply.Sessions, answer)
		}
		return reply, nil
	})
	c.On("RevokeSession", func(_ context.Context, r any) (any, error) {
		if !s.revoke(r.(*v1.RevokeSessionRequest).GetSessionId()) {
			return nil, grpcstatus.Error(codes.NotFound, "there is no such session")
		}
		return &v1.RevokeSessionResponse{}, nil
	})
	c.On("ListSessions", func(context.Context, any) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		reply := &v1.ListSessionsResponse{}
		for _, made := range s.made {
			reply.Sessions = append(reply.Sessions, made)
		}
		return reply, nil
	})
	return s
}

func (s *sessions) revoke(id string) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, made := range s.made {
		if made.GetSessionId() == id {
			delete(s.made, digest)
			found = true
		}
	}
	return found
}

func (s *sessions) fail(leader, alone error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader, s.alone = leader, alone
}

// asked returns the questions since the last time, and about how many sessions they were.
func (s *sessions) asked() (questions, about int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	questions, about = s.questions, s.about
	s.questions, s.about = 0, 0
	return questions, about
}

// page sends a request as a page of the gateway does, from this machine. Headers come in pairs; an empty value removes one.
func page(g *gatewaytest.Gate, method, path, cookie string, headers ...string) *gatewaytest.Answer {
	g.T.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, nil)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			r.Host = headers[i+1]
		case headers[i] == "Peer":
			r.RemoteAddr = headers[i+1]
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		default:
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	g.Handler.ServeHTTP(w, r)
	a := &gatewaytest.Answer{Code: w.Code, Header: w.Header(), Body: w.Body.String()}
	if w.Body.Len() > 0 {
		require.NoError(g.T, json.Unmarshal(w.Body.Bytes(), a))
	}
	return a
}

// signIn returns the cookie of a new session, as a browser sends it, and its id.
func signIn(g *gatewaytest.Gate, token string, headers ...string) (cookie, id string) {
	g.T.Helper()
	a := page(g, "POST", "/v1/session", "", append([]string{"Authorization", "Bearer " + token}, headers...)...)
	require.Equal(g.T, 201, a.Code, a.Body)
	var made struct {
		ID string `json:"session_id"`
	}
	require.NoError(g.T, json.Unmarshal(a.Data, &made))
	cookie, _, _ = strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return cookie, made.ID
}

func TestSessions_signInAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		keepSessions(c)
		g, other := gatewaytest.NewGate(t, gatewaytest.Config(c)), gatewaytest.NewGate(t, gatewaytest.Config(c))
		a := page(g, "POST", "/v1/session", "", "Authorization", "Bearer "+gatewaytest.TokenViewer, "User-Agent", "Firefox")
		require.Equal(t, 201, a.Code, a.Body)
		require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
		set := a.Header["Set-Cookie"]
		require.Len(t, set, 1)
		require.Regexp(t, `^mind=sck_[A-Za-z0-9_-]{43}; Path=/; Expires=Sat, 01 Jan 2000 12:00:00 GMT; HttpOnly; SameSite=Strict$`, set[0])
		cookie, _, _ := strings.Cut(set[0], ";")
		require.NotContains(t, a.Body, "sck_")
		calls := c.Calls()
		made := calls[len(calls)-1].Request.(*v1.CreateSessionRequest)
		require.Equal(t, []string{"127.0.0.1", "Firefox"}, []string{made.GetAddress(), made.GetUserAgent()})
		require.Nil(t, made.GetExpiresAt())

		for _, at := range []*gatewaytest.Gate{g, other} {
			own := page(at, "GET", "/v1/session", cookie)
			require.Equal(t, 200, own.Code, own.Body)
			require.Contains(t, own.Body, `"session_id":"ses_1"`)
			require.Contains(t, own.Body, `"current":true`)
			me := page(at, "GET", "/v1/me", cookie)
			require.JSONEq(t, `{"tenant_id":"acme","user_id":"vic","permissions":["scaimind:view"]}`, string(me.Data))
			require.Equal(t, 200, page(at, "GET", rest.Prefix+"/jobs", cookie).Code)
			require.Equal(t, 403, page(at, "POST", rest.Prefix+"/jobs/job_1/cancel", cookie).Code, "it has the permissions of the token")
		}
		list := page(g, "GET", "/v1/sessions", cookie)
		require.Equal(t, 200, list.Code, list.Body)
		require.Contains(t, list.Body, `"current":true`)

		out := page(g, "DELETE", "/v1/session", cookie)
		require.Equal(t, 204, out.Code, out.Body)
		require.Equal(t, []string{"mind=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}, out.Header["Set-Cookie"])
		gone := page(g, "GET", "/v1/session", cookie)
		require.Equal(t, 401, gone.Code, "here at once")
		require.Equal(t, "AUTH_TOKEN_INVALID", gone.Error.Code)
		require.Equal(t, []string{"mind=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}, gone.Header["Set-Cookie"], "and forgotten by the browser")

		require.Equal(t, "AUTH_TOKEN_MISSING", page(g, "GET", "/v1/session", "").Error.Code)
		for _, method := range []string{"GET", "DELETE"} {
			a := page(g, method, "/v1/session", "", "Authorization", "Bearer "+gatewaytest.TokenAll)
			require.Equal(t, 401, a.Code, "a token is no session")
		}
		methods := page(g, "GET", "/v1/session/methods", "")
		require.JSONEq(t, `{"token":true,"oidc":null}`, string(methods.Data))
	})
}

func TestSessions_lists(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	keepSessions(c)
	config := gatewaytest.Config(c)
	config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "operator", Tenant: "ops", User: "root", Permissions: []string{auth.PermissionOperator}})
	g := gatewaytest.NewGate(t, config)
	cookie, id := signIn(g, gatewaytest.TokenAll)
	last := func() (proto.Message, string) {
		calls := c.Calls()
		at := calls[len(calls)-1]
		return at.Request.(proto.Message), at.MD[status.KeyTenant][0]
	}
	for path, tc := range map[string]struct {
		all    bool
		tenant string
		auth   string
	}{
		"/v1/sessions":                {false, "acme", gatewaytest.TokenViewer},
		"/v1/sessions?all=false":      {false, "acme", gatewaytest.TokenViewer},
		"/v1/sessions?all=true":       {true, "acme", gatewaytest.TokenAll},
		"/v1/sessions?tenant_id=acme": {true, "acme", "operator"},
		// The own tenant is no other one.
		"/v1/sessions?all=false&tenant_id=acme": {false, "acme", gatewaytest.TokenViewer},
	} {
		require.Equal(t, 200, page(g, "GET", path, "", "Authorization", "Bearer "+tc.auth).Code, path)
		request, tenant := last()
		require.Equal(t, tc.all, request.(*v1.ListSessionsRequest).GetAll(), path)
		require.Equal(t, tc.tenant, tenant)
	}
	require.Equal(t, 422, page(g, "GET", "/v1/sessions?all=perhaps", cookie).Code)
	for token, any := range map[string]bool{gatewaytest.TokenViewer: false, gatewaytest.TokenAll: true} {
		for _, path := range []string{"/v1/sessions/ses_77", "/v1/sessions/ses_77?tenant_id=acme"} {
			require.Equal(t, 404, page(g, "DELETE", path, "", "Authorization", "Bearer "+token).Code)
			request, _ := last()
			require.Equal(t, any, request.(*v1.RevokeSessionRequest).GetAnyUser(), token)
		}
	}
	a := page(g, "DELETE", "/v1/sessions/"+id, cookie)
	require.Equal(t, 200, a.Code, a.Body)
	require.JSONEq(t, `{"session_id":"`+id+`"}`, string(a.Data))
	require.Contains(t, a.Header.Get("Set-Cookie"), "Max-Age=0", "it was the own one")
	require.Equal(t, 401, page(g, "GET", "/v1/session", cookie).Code)
}

// A session that came from a token of an issuer ends with it, and has its groups and roles for what it writes.
func TestSessions_ofATokenOfAnIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		keepSessions(c)
		config := gatewaytest.Config(c)
		config.Authenticator = issuedUntil(time.Now().Add(3 * time.Minute))
		g := gatewaytest.NewGate(t, config)
		cookie, _ := signIn(g, "jwt")
		a := page(g, "POST", rest.Prefix+"/jobs/job_1/cancel", cookie)
		require.Equal(t, 200, a.Code, a.Body)
		calls := c.Calls()
		require.Equal(t, []string{"group:g1"}, calls[len(calls)-1].MD[status.KeyMember])
		time.Sleep(3 * time.Minute)
		require.Equal(t, 401, page(g, "GET", "/v1/session", cookie).Code)
	})
}

// Guessed sessions are limited like guessed tokens, and together with them.
func TestSessions_aFloodOfGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		good, _ := signIn(g, gatewaytest.TokenAll)
		require.Equal(t, 200, page(g, "GET", "/v1/session", good).Code)
		kept.asked()
		refused := 0
		for i := range 300 {
			if page(g, "GET", "/v1/session", fmt.Sprint("mind=sck_", i)).Code == 429 {
				refused++
			}
		}
		questions, _ := kept.asked()
		require.LessOrEqual(t, questions, 25)
		require.Greater(t, refused, 250)
		require.Equal(t, 429, page(g, "GET", rest.Prefix+"/jobs", "", "Authorization", "Bearer "+auth.MintToken()).Code, "tokens are no way around it")
		time.Sleep(time.Second)
		for i := range 300 {
			page(g, "GET", "/v1/session", fmt.Sprint("mind=sck_", i))
		}
		require.Equal(t, 200, page(g, "GET", "/v1/session", good).Code, "one that was good is no guess")
	})
}

// While there is no leader, a session goes on that a coordinator knows. With a leader, the leader alone decides.
func TestSessions_withoutALeader(t *testing.T) {
	away := grpcstatus.Error(codes.Unavailable, "no leader")
	for name, tc := range map[string]struct {
		leader, alone  error
		unknown        bool // the coordinator does not know it
		known, guessed int  // the answer for one that was good before, and for a new one
	}{
		"no leader, and a coordinator that knows it":         {away, nil, false, 200, 200},
		"no leader, and a coordinator that does not know it": {away, nil, true, 503, 503}, // it may be behind
		"nobody can say": {away, away, false, 503, 503},
		"the leader fails, which says nothing of the others": {grpcstatus.Error(codes.Internal, "disk on fire"), nil, false, 503, 503},
		"the leader does not know it (any more)":             {nil, nil, true, 401, 401},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				kept := keepSessions(c)
				g, other := gatewaytest.NewGate(t, gatewaytest.Config(c)), gatewaytest.NewGate(t, gatewaytest.Config(c))
				cookie, id := signIn(g, gatewaytest.TokenAll)
				require.Equal(t, 200, page(g, "GET", rest.Prefix+"/queue?consistency=stale", cookie).Code)
				time.Sleep(time.Minute)
				kept.fail(tc.leader, tc.alone)
				if tc.unknown {
					kept.revoke(id)
				}
				begin := time.Now()
				a := page(g, "GET", rest.Prefix+"/queue?consistency=stale", cookie)
				require.Equal(t, tc.known, a.Code, a.Body)
				require.LessOrEqual(t, time.Since(begin), 8*time.Second)
				if tc.known == 200 {
					require.LessOrEqual(t, time.Since(begin), 2*time.Second, "a page that is open does not wait for the election")
				}
				require.Equal(t, tc.guessed, page(other, "GET", rest.Prefix+"/queue?consistency=stale", cookie).Code)
			})
		})
	}
}

// loopbackPipes are pipes whose ends seem to be on this machine.
type loopbackPipes struct{ *gatewaytest.Pipes }

type loopbackConn struct{ net.Conn }

func (loopbackConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}

func (p loopbackPipes) Accept() (net.Conn, error) {
	conn, err := p.Pipes.Accept()
	return loopbackConn{conn}, err
}

// A session that was revoked ends within a second at every gateway: requests, and event streams. However many streams there are,
// the coordinators get few questions.
func TestSessions_endWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		c.Watch = func(_ *v1.WatchEventsRequest, s grpc.ServerStreamingServer[v1.WatchEventsResponse]) error {
			_ = s.SendHeader(metadata.Pairs(status.KeyIndex, "7"))
			<-s.Context().Done()
			return s.Context().Err()
		}
		gates := []*gatewaytest.Gate{gatewaytest.NewGate(t, gatewaytest.Config(c)), gatewaytest.NewGate(t, gatewaytest.Config(c))}
		running := []*gatewaytest.Running{runOnLoopback(t, gatewaytest.Config(c)), runOnLoopback(t, gatewaytest.Config(c))}
		cookie, id := signIn(gates[0], gatewaytest.TokenAll)
		going, _ := signIn(gates[0], gatewaytest.TokenAll)
		var streams []func() gatewaytest.Event
		for _, g := range running {
			for range 20 {
				next, resp := g.Stream("/events", "Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Host", "localhost")
				require.Equal(t, 200, resp.StatusCode)
				streams = append(streams, next)
			}
			_, resp := g.Stream("/events", "Authorization", "", "Cookie", going, "Sec-Fetch-Site", "same-origin", "Host", "localhost")
			require.Equal(t, 200, resp.StatusCode)
		}
		time.Sleep(10 * time.Second)
		kept.asked()
		time.Sleep(10 * time.Second)
		questions, about := kept.asked()
		require.LessOrEqual(t, questions, 2*10*5, "not one for each stream")
		require.LessOrEqual(t, about, 2*2*10*5)

		for _, g := range gates {
			require.Equal(t, 200, page(g, "GET", rest.Prefix+"/jobs", cookie).Code)
		}
		require.Equal(t, 200, page(gates[1], "DELETE", "/v1/sessions/"+id, going).Code)
		at := time.Now()
		for _, next := range streams {
			last := next()
			for last.Name != "error" {
				require.NotEqual(t, gatewaytest.Event{}, last)
				last = next()
			}
			require.Contains(t, last.Data, "AUTH_TOKEN_INVALID")
			require.Contains(t, last.Data, "sign in again")
			require.LessOrEqual(t, time.Since(at), time.Second)
		}
		time.Sleep(time.Until(at.Add(time.Second)))
		for _, g := range gates {
			require.Equal(t, 401, page(g, "GET", rest.Prefix+"/jobs", cookie).Code)
			require.Equal(t, 200, page(g, "GET", rest.Prefix+"/jobs", going).Code)
		}
	})
}

// runOnLoopback runs a gateway whose callers are on its machine.
func runOnLoopback(t *testing.T, config gateway.Config) *gatewaytest.Running {
	lis := gatewaytest.NewPipes()
	config.Listener = loopbackPipes{lis}
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: lis.Dial, DisableCompression: true}
	g := &gatewaytest.Running{T: t, Caller: &http.Client{Transport: transport}, Stop: cancel, Ended: make(chan error, 1)}
	go func() { g.Ended <- gateway.Run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		<-g.Ended
	})
	return g
}

// The secret of a session appears only in the cookie.
func TestSessions_areNotWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		kept := keepSessions(c)
		var log gatewaytest.Log
		config := gatewaytest.Config(c)
		config.Timeouts.Denials = time.Second
		config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		g := gatewaytest.NewGate(t, config)
		cookie, _ := signIn(g, gatewaytest.TokenAll)
		_, secret, _ := strings.Cut(cookie, "=")
		said := ""
		for _, path := range []string{"/v1/session", "/v1/sessions", rest.Prefix + "/jobs", "/nowhere", rest.Prefix + "/jobs?page_size=x"} {
			said += page(g, "GET", path, cookie).Body
			said += page(g, "GET", path, cookie, "Sec-Fetch-Site", "cross-site").Body
			said += page(g, "GET", path, cookie+"; "+cookie).Body
		}
		kept.fail(grpcstatus.Error(codes.Internal, "disk on fire"), nil)
		time.Sleep(time.Minute)
		said += page(g, "GET", "/v1/session", cookie).Body
		said += g.Do("GET", "/metrics", "").Body
		for _, call := range c.Calls() {
			b, err := proto.Marshal(call.Request.(proto.Message))
			require.NoError(t, err)
			said += string(b)
		}
		said += log.String()
		require.Contains(t, said, "disk on fire")
		require.NotContains(t, said, secret)
		require.NotContains(t, said, strings.TrimPrefix(secret, "sck_"))
	})
}
