package gateway

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
	"github.com/mindcoordinator/mind/gateway/auth"
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

func keepSessions(c *scripted) *sessions {
	s := &sessions{made: map[string]*v1.Session{}}
	c.on("CreateSession", func(ctx context.Context, r any) (any, error) {
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
	c.on("VerifySessions", func(ctx context.Context, r any) (any, error) {
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
	c.on("RevokeSession", func(_ context.Context, r any) (any, error) {
		if !s.revoke(r.(*v1.RevokeSessionRequest).GetSessionId()) {
			return nil, grpcstatus.Error(codes.NotFound, "there is no such session")
		}
		return &v1.RevokeSessionResponse{}, nil
	})
	c.on("ListSessions", func(context.Context, any) (any, error) {
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
func (g *gate) page(method, path, cookie string, headers ...string) *answer {
	g.t.Helper()
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
	g.handler.ServeHTTP(w, r)
	a := &answer{code: w.Code, header: w.Header(), body: w.Body.String()}
	if w.Body.Len() > 0 {
		require.NoError(g.t, json.Unmarshal(w.Body.Bytes(), a))
	}
	return a
}

// signIn returns the cookie of a new session, as a browser sends it, and its id.
func (g *gate) signIn(token string, headers ...string) (cookie, id string) {
	g.t.Helper()
	a := g.page("POST", "/v1/session", "", append([]string{"Authorization", "Bearer " + token}, headers...)...)
	require.Equal(g.t, 201, a.code, a.body)
	var made struct {
		ID string `json:"session_id"`
	}
	require.NoError(g.t, json.Unmarshal(a.Data, &made))
	cookie, _, _ = strings.Cut(a.header.Get("Set-Cookie"), ";")
	return cookie, made.ID
}

func TestSessions_signInAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		keepSessions(c)
		g, other := newGate(t, testConfig(c)), newGate(t, testConfig(c))
		a := g.page("POST", "/v1/session", "", "Authorization", "Bearer "+tokenViewer, "User-Agent", "Firefox")
		require.Equal(t, 201, a.code, a.body)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		set := a.header["Set-Cookie"]
		require.Len(t, set, 1)
		require.Regexp(t, `^mind=sck_[A-Za-z0-9_-]{43}; Path=/; Expires=Sat, 01 Jan 2000 12:00:00 GMT; HttpOnly; SameSite=Strict$`, set[0])
		cookie, _, _ := strings.Cut(set[0], ";")
		require.NotContains(t, a.body, "sck_")
		calls := c.seen()
		made := calls[len(calls)-1].request.(*v1.CreateSessionRequest)
		require.Equal(t, []string{"127.0.0.1", "Firefox"}, []string{made.GetAddress(), made.GetUserAgent()})
		require.Nil(t, made.GetExpiresAt())

		for _, at := range []*gate{g, other} {
			own := at.page("GET", "/v1/session", cookie)
			require.Equal(t, 200, own.code, own.body)
			require.Contains(t, own.body, `"session_id":"ses_1"`)
			require.Contains(t, own.body, `"current":true`)
			me := at.page("GET", "/v1/me", cookie)
			require.JSONEq(t, `{"tenant_id":"acme","user_id":"vic","permissions":["scaimind:view"]}`, string(me.Data))
			require.Equal(t, 200, at.page("GET", prefix+"/jobs", cookie).code)
			require.Equal(t, 403, at.page("POST", prefix+"/jobs/job_1/cancel", cookie).code, "it has the permissions of the token")
		}
		list := g.page("GET", "/v1/sessions", cookie)
		require.Equal(t, 200, list.code, list.body)
		require.Contains(t, list.body, `"current":true`)

		out := g.page("DELETE", "/v1/session", cookie)
		require.Equal(t, 204, out.code, out.body)
		require.Equal(t, []string{"mind=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}, out.header["Set-Cookie"])
		gone := g.page("GET", "/v1/session", cookie)
		require.Equal(t, 401, gone.code, "here at once")
		require.Equal(t, "AUTH_TOKEN_INVALID", gone.Error.Code)
		require.Equal(t, []string{"mind=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"}, gone.header["Set-Cookie"], "and forgotten by the browser")

		require.Equal(t, "AUTH_TOKEN_MISSING", g.page("GET", "/v1/session", "").Error.Code)
		for _, method := range []string{"GET", "DELETE"} {
			a := g.page(method, "/v1/session", "", "Authorization", "Bearer "+tokenAll)
			require.Equal(t, 401, a.code, "a token is no session")
		}
		methods := g.page("GET", "/v1/session/methods", "")
		require.JSONEq(t, `{"token":true,"oidc":null}`, string(methods.Data))
	})
}

func TestSessions_lists(t *testing.T) {
	c := newScripted(t)
	keepSessions(c)
	config := testConfig(c)
	config.Tokens = append(config.Tokens, StaticToken{Token: "operator", Tenant: "ops", User: "root", Permissions: []string{auth.PermissionOperator}})
	g := newGate(t, config)
	cookie, id := g.signIn(tokenAll)
	last := func() (proto.Message, string) {
		calls := c.seen()
		at := calls[len(calls)-1]
		return at.request.(proto.Message), at.md[status.KeyTenant][0]
	}
	for path, tc := range map[string]struct {
		all    bool
		tenant string
		auth   string
	}{
		"/v1/sessions":                {false, "acme", tokenViewer},
		"/v1/sessions?all=false":      {false, "acme", tokenViewer},
		"/v1/sessions?all=true":       {true, "acme", tokenAll},
		"/v1/sessions?tenant_id=acme": {true, "acme", "operator"},
		// The own tenant is no other one.
		"/v1/sessions?all=false&tenant_id=acme": {false, "acme", tokenViewer},
	} {
		require.Equal(t, 200, g.page("GET", path, "", "Authorization", "Bearer "+tc.auth).code, path)
		request, tenant := last()
		require.Equal(t, tc.all, request.(*v1.ListSessionsRequest).GetAll(), path)
		require.Equal(t, tc.tenant, tenant)
	}
	require.Equal(t, 422, g.page("GET", "/v1/sessions?all=perhaps", cookie).code)
	for token, any := range map[string]bool{tokenViewer: false, tokenAll: true} {
		for _, path := range []string{"/v1/sessions/ses_77", "/v1/sessions/ses_77?tenant_id=acme"} {
			require.Equal(t, 404, g.page("DELETE", path, "", "Authorization", "Bearer "+token).code)
			request, _ := last()
			require.Equal(t, any, request.(*v1.RevokeSessionRequest).GetAnyUser(), token)
		}
	}
	a := g.page("DELETE", "/v1/sessions/"+id, cookie)
	require.Equal(t, 200, a.code, a.body)
	require.JSONEq(t, `{"session_id":"`+id+`"}`, string(a.Data))
	require.Contains(t, a.header.Get("Set-Cookie"), "Max-Age=0", "it was the own one")
	require.Equal(t, 401, g.page("GET", "/v1/session", cookie).code)
}

// A session that came from a token of an issuer ends with it, and has its groups and roles for what it writes.
func TestSessions_ofATokenOfAnIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		keepSessions(c)
		config := testConfig(c)
		config.Authenticator = issuedUntil(time.Now().Add(3 * time.Minute))
		g := newGate(t, config)
		cookie, _ := g.signIn("jwt")
		a := g.page("POST", prefix+"/jobs/job_1/cancel", cookie)
		require.Equal(t, 200, a.code, a.body)
		calls := c.seen()
		require.Equal(t, []string{"group:g1"}, calls[len(calls)-1].md[status.KeyMember])
		time.Sleep(3 * time.Minute)
		require.Equal(t, 401, g.page("GET", "/v1/session", cookie).code)
	})
}

// Guessed sessions are limited like guessed tokens, and together with them.
func TestSessions_aFloodOfGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		kept := keepSessions(c)
		g := newGate(t, testConfig(c))
		good, _ := g.signIn(tokenAll)
		require.Equal(t, 200, g.page("GET", "/v1/session", good).code)
		kept.asked()
		refused := 0
		for i := range 300 {
			if g.page("GET", "/v1/session", fmt.Sprint("mind=sck_", i)).code == 429 {
				refused++
			}
		}
		questions, _ := kept.asked()
		require.LessOrEqual(t, questions, 25)
		require.Greater(t, refused, 250)
		require.Equal(t, 429, g.page("GET", prefix+"/jobs", "", "Authorization", "Bearer "+auth.MintToken()).code, "tokens are no way around it")
		time.Sleep(time.Second)
		for i := range 300 {
			g.page("GET", "/v1/session", fmt.Sprint("mind=sck_", i))
		}
		require.Equal(t, 200, g.page("GET", "/v1/session", good).code, "one that was good is no guess")
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
				c := newScripted(t)
				kept := keepSessions(c)
				g, other := newGate(t, testConfig(c)), newGate(t, testConfig(c))
				cookie, id := g.signIn(tokenAll)
				require.Equal(t, 200, g.page("GET", prefix+"/queue?consistency=stale", cookie).code)
				time.Sleep(time.Minute)
				kept.fail(tc.leader, tc.alone)
				if tc.unknown {
					kept.revoke(id)
				}
				begin := time.Now()
				a := g.page("GET", prefix+"/queue?consistency=stale", cookie)
				require.Equal(t, tc.known, a.code, a.body)
				require.LessOrEqual(t, time.Since(begin), 8*time.Second)
				if tc.known == 200 {
					require.LessOrEqual(t, time.Since(begin), 2*time.Second, "a page that is open does not wait for the election")
				}
				require.Equal(t, tc.guessed, other.page("GET", prefix+"/queue?consistency=stale", cookie).code)
			})
		})
	}
}

// loopbackPipes are pipes whose ends seem to be on this machine.
type loopbackPipes struct{ *pipes }

type loopbackConn struct{ net.Conn }

func (loopbackConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
}

func (p loopbackPipes) Accept() (net.Conn, error) {
	conn, err := p.pipes.Accept()
	return loopbackConn{conn}, err
}

// A session that was revoked ends within a second at every gateway: requests, and event streams. However many streams there are,
// the coordinators get few questions.
func TestSessions_endWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		kept := keepSessions(c)
		c.watch = func(_ *v1.WatchEventsRequest, s grpc.ServerStreamingServer[v1.WatchEventsResponse]) error {
			_ = s.SendHeader(metadata.Pairs(status.KeyIndex, "7"))
			<-s.Context().Done()
			return s.Context().Err()
		}
		gates := []*gate{newGate(t, testConfig(c)), newGate(t, testConfig(c))}
		running := []*running{runOnLoopback(t, testConfig(c)), runOnLoopback(t, testConfig(c))}
		cookie, id := gates[0].signIn(tokenAll)
		going, _ := gates[0].signIn(tokenAll)
		var streams []func() event
		for _, g := range running {
			for range 20 {
				next, resp := g.stream("/events", "Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Host", "localhost")
				require.Equal(t, 200, resp.StatusCode)
				streams = append(streams, next)
			}
			_, resp := g.stream("/events", "Authorization", "", "Cookie", going, "Sec-Fetch-Site", "same-origin", "Host", "localhost")
			require.Equal(t, 200, resp.StatusCode)
		}
		time.Sleep(10 * time.Second)
		kept.asked()
		time.Sleep(10 * time.Second)
		questions, about := kept.asked()
		require.LessOrEqual(t, questions, 2*10*5, "not one for each stream")
		require.LessOrEqual(t, about, 2*2*10*5)

		for _, g := range gates {
			require.Equal(t, 200, g.page("GET", prefix+"/jobs", cookie).code)
		}
		require.Equal(t, 200, gates[1].page("DELETE", "/v1/sessions/"+id, going).code)
		at := time.Now()
		for _, next := range streams {
			last := next()
			for last.name != "error" {
				require.NotEqual(t, event{}, last)
				last = next()
			}
			require.Contains(t, last.data, "AUTH_TOKEN_INVALID")
			require.Contains(t, last.data, "sign in again")
			require.LessOrEqual(t, time.Since(at), time.Second)
		}
		time.Sleep(time.Until(at.Add(time.Second)))
		for _, g := range gates {
			require.Equal(t, 401, g.page("GET", prefix+"/jobs", cookie).code)
			require.Equal(t, 200, g.page("GET", prefix+"/jobs", going).code)
		}
	})
}

// runOnLoopback runs a gateway whose callers are on its machine.
func runOnLoopback(t *testing.T, config Config) *running {
	lis := newPipes()
	config.Listener = loopbackPipes{lis}
	ctx, cancel := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: lis.dial, DisableCompression: true}
	g := &running{t: t, caller: &http.Client{Transport: transport}, stop: cancel, ended: make(chan error, 1)}
	go func() { g.ended <- Run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		<-g.ended
	})
	return g
}

// The secret of a session appears only in the cookie.
func TestSessions_areNotWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newScripted(t)
		kept := keepSessions(c)
		var log keptLog
		config := testConfig(c)
		config.Timeouts.Denials = time.Second
		config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		g := newGate(t, config)
		cookie, _ := g.signIn(tokenAll)
		_, secret, _ := strings.Cut(cookie, "=")
		said := ""
		for _, path := range []string{"/v1/session", "/v1/sessions", prefix + "/jobs", "/nowhere", prefix + "/jobs?page_size=x"} {
			said += g.page("GET", path, cookie).body
			said += g.page("GET", path, cookie, "Sec-Fetch-Site", "cross-site").body
			said += g.page("GET", path, cookie+"; "+cookie).body
		}
		kept.fail(grpcstatus.Error(codes.Internal, "disk on fire"), nil)
		time.Sleep(time.Minute)
		said += g.page("GET", "/v1/session", cookie).body
		said += g.do("GET", "/metrics", "").body
		for _, call := range c.seen() {
			b, err := proto.Marshal(call.request.(proto.Message))
			require.NoError(t, err)
			said += string(b)
		}
		said += log.String()
		require.Contains(t, said, "disk on fire")
		require.NotContains(t, said, secret)
		require.NotContains(t, said, strings.TrimPrefix(secret, "sck_"))
	})
}
