package credentials_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// keepTickets makes a coordinator keep tickets like the real leader, whose tests are in package coordinator.
func keepTickets(c *gatewaytest.Coordinator) (asked *atomic.Int64) {
	var mu sync.Mutex
	kept := map[string]*v1.StreamTicket{}
	asked = &atomic.Int64{}
	c.On("CreateStreamTicket", func(_ context.Context, r any) (any, error) {
		calls := c.Calls()
		md := calls[len(calls)-1].MD
		request := r.(*v1.CreateStreamTicketRequest)
		whose := proto.CloneOf(request.GetTicket())
		whose.TenantId, whose.UserId = md[status.KeyTenant][0], md[status.KeyUser][0]
		mu.Lock()
		defer mu.Unlock()
		kept[string(request.GetDigest())] = whose
		return &v1.CreateStreamTicketResponse{ExpiresAt: timestamppb.New(time.Now().Add(time.Minute))}, nil
	})
	c.On("RedeemStreamTicket", func(_ context.Context, r any) (any, error) {
		asked.Add(1)
		digest := string(r.(*v1.RedeemStreamTicketRequest).GetDigest())
		mu.Lock()
		defer mu.Unlock()
		whose := kept[digest]
		delete(kept, digest)
		if whose == nil {
			return nil, grpcstatus.Error(codes.NotFound, "the ticket does not exist, has expired or was used")
		}
		return &v1.RedeemStreamTicketResponse{Ticket: whose}, nil
	})
	return asked
}

// threeLines sends the log of an ended job with three lines.
func threeLines(r *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
	return gatewaytest.Lines(r, s, 3)
}

func takeTicket(g *gatewaytest.Running, token string) (ticket string, resp *http.Response) {
	g.T.Helper()
	resp, err := g.Request(context.Background(), http.MethodPost, "/v1/stream-tickets", "", "Authorization", "Bearer "+token)
	require.NoError(g.T, err)
	defer resp.Body.Close()
	var a struct {
		Data struct {
			Ticket    string
			ExpiresAt time.Time `json:"expires_at"`
		}
	}
	require.NoError(g.T, json.NewDecoder(resp.Body).Decode(&a))
	if resp.StatusCode == 201 {
		require.WithinDuration(g.T, time.Now().Add(time.Minute), a.Data.ExpiresAt, time.Second)
	}
	return a.Data.Ticket, resp
}

// open opens a stream without a token.
func open(g *gatewaytest.Running, path string, headers ...string) (*http.Response, *gatewaytest.Answer, func() gatewaytest.Event) {
	g.T.Helper()
	next, resp := g.Stream(path, append([]string{"Authorization", ""}, headers...)...)
	a := &gatewaytest.Answer{}
	if resp.StatusCode != 200 {
		require.NoError(g.T, json.NewDecoder(resp.Body).Decode(a))
	}
	return resp, a, next
}

// A ticket that was made at one gateway opens one stream at any gateway, with the permissions of its maker, and cannot
// be used for other rest.Routes.
func TestStreamTickets_openOneStreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = threeLines
		asked := keepTickets(c)
		here, there := gatewaytest.Run(t, gatewaytest.Config(c)), gatewaytest.Run(t, gatewaytest.Config(c))
		ticket, resp := takeTicket(here, gatewaytest.TokenViewer)
		require.Equal(t, 201, resp.StatusCode)
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		require.True(t, strings.HasPrefix(ticket, "sst_"))
		for _, call := range c.Calls() {
			require.NotContains(t, call.Request.(proto.Message).ProtoReflect().Interface().(interface{ String() string }).String(), ticket)
		}

		resp, _, next := open(there, "/jobs/job_1/logs?ticket="+ticket)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
		gatewaytest.ExpectLines(t, next, 1, 3)
		calls := c.Calls()
		last := calls[len(calls)-1]
		require.Equal(t, "StreamJobLogs", last.Method)
		require.Equal(t, []string{"acme"}, last.MD[status.KeyTenant])
		require.Equal(t, []string{"vic"}, last.MD[status.KeyUser], "it is its maker's")
		for _, g := range []*gatewaytest.Running{here, there} {
			resp, a, _ := open(g, "/jobs/job_1/logs?ticket="+ticket)
			require.Equal(t, 401, resp.StatusCode, "it is used")
			require.Equal(t, "AUTH_TOKEN_INVALID", a.Error.Code)
			require.Contains(t, a.Error.Message, "get another one from POST /v1/stream-tickets")
		}

		// A page resumes after its connection broke, with a new ticket and the last id in the query.
		ticket, _ = takeTicket(here, gatewaytest.TokenViewer)
		resp, _, next = open(here, "/jobs/job_1/logs?last_event_id=1:0=2&ticket="+ticket)
		require.Equal(t, 200, resp.StatusCode)
		gatewaytest.ExpectLines(t, next, 3, 3)

		// A ticket does not allow more than its token.
		ticket, _ = takeTicket(here, gatewaytest.TokenNone)
		resp, a, _ := open(here, "/jobs/job_1/logs?ticket="+ticket)
		require.Equal(t, 403, resp.StatusCode)
		require.Equal(t, "AUTHZ_PERMISSION_DENIED", a.Error.Code)

		// Other rest.Routes refuse it, and it is not used up.
		before := asked.Load()
		ticket, _ = takeTicket(here, gatewaytest.TokenAll)
		for _, path := range []string{"/jobs", "/jobs/job_1", "/cluster", "/jobs/job_1/metrics"} {
			resp, a, _ := open(here, path+"?ticket="+ticket)
			require.Equal(t, 401, resp.StatusCode, path)
			require.Equal(t, "AUTH_TOKEN_MISSING", a.Error.Code)
			require.Contains(t, a.Error.Message, "event streams only")
		}
		for name, tc := range map[string]struct{ query, header string }{
			"two of them":       {"?ticket=" + ticket + "&ticket=" + ticket, ""},
			"a token beside it": {"?ticket=" + ticket, "Bearer " + gatewaytest.TokenAll},
			"another scheme":    {"?ticket=" + ticket, "Basic dTpw"},
			"what is none":      {"?ticket=" + gatewaytest.TokenAll, ""},
			"an empty one":      {"?ticket=", ""},
		} {
			resp, a, _ := open(here, "/jobs/job_1/logs"+tc.query, "Authorization", tc.header)
			require.Equal(t, 401, resp.StatusCode, name)
			require.Equal(t, "AUTH_TOKEN_INVALID", a.Error.Code, name)
		}
		require.Equal(t, before, asked.Load(), "nobody is asked")
		resp, _, _ = open(here, "/jobs/job_1/logs?ticket="+ticket)
		require.Equal(t, 200, resp.StatusCode)

		_, resp = takeTicket(here, "nobody")
		require.Equal(t, 401, resp.StatusCode)
	})
}

// A stream that a ticket opened ends with the token behind it, as every stream does.
func TestStreamTickets_endWithTheirToken(t *testing.T) {
	silent := func(_ *v1.StreamJobLogsRequest, s grpc.ServerStreamingServer[v1.StreamJobLogsResponse]) error {
		if err := s.Send(&v1.StreamJobLogsResponse{Entries: []*v1.LogEntry{gatewaytest.Entry(1)}}); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}
	t.Run("an API token that is revoked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := gatewaytest.NewCoordinator(t)
			c.Logs = silent
			keepTickets(c)
			var revoked atomic.Bool
			token := auth.MintToken()
			c.On("VerifyToken", func(_ context.Context, r any) (any, error) {
				if revoked.Load() || sha(token) != [32]byte(r.(*v1.VerifyTokenRequest).GetDigest()) {
					return nil, grpcstatus.Error(codes.NotFound, "nobody's")
				}
				return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
			})
			g := gatewaytest.Run(t, gatewaytest.Config(c))
			ticket, _ := takeTicket(g, token)
			_, _, next := open(g, "/jobs/job_1/logs?ticket="+ticket)
			gatewaytest.ExpectLines(t, next, 1, 1)
			time.Sleep(5 * time.Minute)
			unused, _ := takeTicket(g, token)
			revoked.Store(true)
			at := time.Now()
			last := next()
			for last.Name != "error" {
				last = next()
			}
			require.Contains(t, last.Data, "AUTH_TOKEN_INVALID")
			require.LessOrEqual(t, time.Since(at), 41*time.Second)
			resp, _, _ := open(g, "/jobs/job_1/logs?ticket="+unused)
			require.Equal(t, 401, resp.StatusCode, "what a revoked token made opens nothing")
		})
	})
	t.Run("a token of an issuer that runs out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := gatewaytest.NewCoordinator(t)
			c.Logs = silent
			keepTickets(c)
			config := gatewaytest.Config(c)
			config.Authenticator = issuedUntil(time.Now().Add(3 * time.Minute))
			g := gatewaytest.Run(t, config)
			ticket, _ := takeTicket(g, "jwt")
			_, _, next := open(g, "/jobs/job_1/logs?ticket="+ticket)
			gatewaytest.ExpectLines(t, next, 1, 1)
			last := next()
			for last.Name != "error" {
				last = next()
			}
			require.Contains(t, last.Data, "AUTH_TOKEN_INVALID")
			require.LessOrEqual(t, time.Now(), time.Date(2000, 1, 1, 0, 3, 31, 0, time.UTC), "in a bubble it is the year 2000")
		})
	})
}

// issuedUntil authenticates a caller with a token of an issuer.
type issuedUntil time.Time

func (i issuedUntil) Authenticate(context.Context, string) (*auth.Caller, error) {
	return &auth.Caller{Tenant: "acme", User: "ann", Permissions: auth.AllPermissions, Issued: true, Expires: time.Time(i)}, nil
}

// A ticket appears only in the answer that creates it.
func TestStreamTickets_areNotWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.Logs = threeLines
		keepTickets(c)
		var log gatewaytest.Log
		config := gatewaytest.Config(c)
		config.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		g := gatewaytest.Run(t, config)
		var tickets []string
		for range 3 {
			ticket, _ := takeTicket(g, gatewaytest.TokenViewer)
			tickets = append(tickets, ticket)
		}
		use := func(path string) string {
			resp, err := g.Request(context.Background(), http.MethodGet, path, "", "Authorization", "")
			require.NoError(t, err)
			defer resp.Body.Close()
			var text strings.Builder
			_ = resp.Header.Write(&text)
			b := make([]byte, 1<<16)
			for {
				n, err := resp.Body.Read(b)
				text.Write(b[:n])
				if err != nil {
					return text.String()
				}
			}
		}
		said := use(rest.Prefix + "/jobs/job_1/logs?ticket=" + tickets[0])
		said += use(rest.Prefix + "/jobs/job_1/logs?ticket=" + tickets[0])
		said += use(rest.Prefix + "/jobs/job_1/logs?tail=x&ticket=" + tickets[1])
		said += use(rest.Prefix + "/jobs?ticket=" + tickets[2])
		said += use("/nowhere?ticket=" + tickets[2])
		c.On("RedeemStreamTicket", func(context.Context, any) (any, error) { return nil, grpcstatus.Error(codes.Internal, "disk on fire") })
		said += use(rest.Prefix + "/jobs/job_1/logs?ticket=" + tickets[2])
		said += use("/metrics")
		time.Sleep(2 * time.Minute) // until denials were reported
		for _, call := range c.Calls() {
			b, err := proto.Marshal(call.Request.(proto.Message))
			require.NoError(t, err)
			said += string(b)
		}
		require.Contains(t, said, "AUTH_TOKEN_INVALID")
		said += log.String()
		require.Contains(t, said, "disk on fire")
		for _, ticket := range tickets {
			require.NotContains(t, said, ticket)
			require.NotContains(t, said, strings.TrimPrefix(ticket, auth.TicketStart))
		}
	})
}

// Guessed tickets are limited like guessed tokens.
func TestStreamTickets_aFloodOfGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		asked := keepTickets(c)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		refused := 0
		for range 300 {
			a := g.Do("GET", rest.Prefix+"/jobs/job_1/logs?ticket="+auth.TicketStart+rest.RandomID(), "", "Authorization", "")
			if a.Code == 429 {
				refused++
			}
		}
		require.LessOrEqual(t, asked.Load(), int64(25))
		require.Greater(t, refused, 250)
	})
}
