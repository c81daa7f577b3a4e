package submits_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
	"github.com/mindcoordinator/mind/gateway/rest"
	"github.com/mindcoordinator/mind/gateway/submits"
)

// crowd submits n jobs at once, all within the time that the coordinator
// needs for the first, and returns the answers by name.
func crowd(g *gatewaytest.Gate, n int, headers ...string) map[string]*gatewaytest.Answer {
	var mu sync.Mutex
	var all sync.WaitGroup
	answers := map[string]*gatewaytest.Answer{}
	for i := range n {
		name := fmt.Sprint("j", i)
		all.Go(func() {
			a := g.Do("POST", rest.Prefix+"/jobs", `{"name":"`+name+`"}`, append([]string{"Idempotency-Key", "key-" + name}, headers...)...)
			mu.Lock()
			defer mu.Unlock()
			answers[name] = a
		})
		synctest.Wait() // one after another: the first few drive, the others wait
	}
	all.Wait()
	return answers
}

// slowly answers submits after a while, each with a job named after it.
func slowly(c *gatewaytest.Coordinator, together func(context.Context, *v1.SubmitJobsRequest) (any, error)) {
	c.On("SubmitJob", func(_ context.Context, r any) (any, error) {
		time.Sleep(20 * time.Millisecond)
		return &v1.SubmitJobResponse{JobId: "job_" + r.(*v1.SubmitJobRequest).Name, Status: v1.JobStatus_PENDING}, nil
	})
	c.On("SubmitJobs", func(ctx context.Context, r any) (any, error) {
		time.Sleep(20 * time.Millisecond)
		if together != nil {
			return together(ctx, r.(*v1.SubmitJobsRequest))
		}
		return gatewaytest.TakesAll(ctx, r)
	})
}

// sentBy counts the calls of each method, and checks that every job was sent with its own key.
func sentBy(t *testing.T, c *gatewaytest.Coordinator) (alone, together int) {
	t.Helper()
	for _, call := range c.Calls() {
		switch r := call.Request.(type) {
		case *v1.SubmitJobRequest:
			alone++
			require.Equal(t, []string{"key-" + r.Name}, call.MD[status.KeyIdempotency])
		case *v1.SubmitJobsRequest:
			together++
			for i, job := range r.Jobs {
				require.Equal(t, "key-"+job.Name, r.IdempotencyKeys[i])
			}
		}
	}
	return alone, together
}

func TestSubmits_travelTogetherUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		slowly(c, nil)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		for name, a := range crowd(g, 50) {
			require.Equal(t, 201, a.Code, a.Body)
			require.Equal(t, "job_"+name, g.Data(a)["job_id"], "each gets its own answer")
			require.Equal(t, "42", a.Header.Get("X-Mind-Index"))
		}
		alone, together := sentBy(t, c)
		require.Equal(t, submits.MaxCalls, alone)
		require.Equal(t, 1, together)
	})
}

func TestSubmits_oneAtATimeGoAlone(t *testing.T) {
	c := gatewaytest.NewCoordinator(t)
	g := gatewaytest.NewGate(t, gatewaytest.Config(c))
	for range 10 {
		require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`, "Idempotency-Key", "key-x").Code)
	}
	alone, together := sentBy(t, c)
	require.Equal(t, 10, alone)
	require.Zero(t, together)
}

func TestSubmits_eachHasItsOwnRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		slowly(c, func(_ context.Context, r *v1.SubmitJobsRequest) (any, error) {
			reply := &v1.SubmitJobsResponse{}
			for i, job := range r.Jobs {
				result := &v1.SubmitJobResult{Job: &v1.SubmitJobResponse{JobId: "job_" + job.Name}}
				switch i % 3 {
				case 1:
					result = &v1.SubmitJobResult{Code: int32(codes.AlreadyExists), Message: "key used for " + job.Name}
				case 2: // its part of the call was not sent
					result = &v1.SubmitJobResult{Code: int32(codes.Unavailable), Message: "leader lost"}
				}
				reply.Results = append(reply.Results, result)
			}
			return reply, nil
		})
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		refused := 0
		for name, a := range crowd(g, submits.MaxCalls+12) {
			if a.Code == 409 {
				refused++
				require.Equal(t, "key used for "+name, a.Error.Message)
				continue
			}
			require.Equal(t, "job_"+name, g.Data(a)["job_id"])
		}
		require.Equal(t, 4, refused)
	})
}

func TestSubmits_goAloneWhenTheGroupIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"for one of its members": {grpcstatus.Error(codes.InvalidArgument, "too large"), 201},
		"for an internal error":  {grpcstatus.Error(codes.Internal, "oops"), 201},
		"a full backlog":         {grpcstatus.Error(codes.ResourceExhausted, "full"), 429},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := gatewaytest.NewCoordinator(t)
				slowly(c, func(context.Context, *v1.SubmitJobsRequest) (any, error) { return nil, tc.err })
				codes := map[int]int{}
				for _, a := range crowd(gatewaytest.NewGate(t, gatewaytest.Config(c)), 10) {
					codes[a.Code]++
				}
				require.Equal(t, 10-submits.MaxCalls, codes[tc.code]-map[bool]int{true: submits.MaxCalls}[tc.code == 201])
			})
		})
	}
}

func TestSubmits_nobodyWaitsLongBehindAStuckCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		c.On("SubmitJob", func(ctx context.Context, r any) (any, error) {
			if n := len(c.Calls()); n <= submits.MaxCalls {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &v1.SubmitJobResponse{JobId: "job_x"}, nil
		})
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		for range submits.MaxCalls {
			go g.Do("POST", rest.Prefix+"/jobs", `{"name":"stuck"}`)
			synctest.Wait()
		}
		start := time.Now()
		require.Equal(t, 201, g.Do("POST", rest.Prefix+"/jobs", `{"name":"x"}`).Code)
		require.LessOrEqual(t, time.Since(start), submits.MaxWait+10*time.Millisecond)
		time.Sleep(time.Minute) // until the stuck calls end
	})
}

func TestSubmits_aDriverWhoseCallerHangsUpDrivesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		slowly(c, nil)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		for range submits.MaxCalls {
			go g.Do("POST", rest.Prefix+"/jobs", `{"name":"first"}`, "Idempotency-Key", "key-first")
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // its turn to drive comes when its caller is gone
			r := httptest.NewRequest("POST", rest.Prefix+"/jobs", strings.NewReader(`{"name":"gone"}`)).WithContext(ctx)
			r.Header.Set("Authorization", "Bearer "+gatewaytest.TokenAll)
			g.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		codes := make(chan int, 3)
		for i := range 3 {
			go func() {
				codes <- g.Do("POST", rest.Prefix+"/jobs", fmt.Sprintf(`{"name":"j%d"}`, i)).Code
			}()
		}
		synctest.Wait()
		time.AfterFunc(25*time.Millisecond, cancel) // in the middle of its drive
		for range 3 {
			require.Equal(t, 201, <-codes)
		}
		time.Sleep(time.Second)
		require.Len(t, c.Calls(), submits.MaxCalls+1, "nobody has to be sent again")
	})
}

func TestSubmits_callersAreNotMixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		slowly(c, nil)
		config := gatewaytest.Config(c)
		config.Tokens = append(config.Tokens, gateway.StaticToken{Token: "other", Tenant: "other", User: "ann", Permissions: auth.AllPermissions})
		g := gatewaytest.NewGate(t, config)
		var all sync.WaitGroup
		for i := range 40 {
			token := []string{gatewaytest.TokenAll, "other"}[i%2]
			all.Go(func() {
				g.Do("POST", rest.Prefix+"/jobs", `{"name":"`+token+`"}`, "Authorization", "Bearer "+token)
			})
		}
		all.Wait()
		groups := 0
		for _, call := range c.Calls() {
			want := map[string]string{"acme": gatewaytest.TokenAll, "other": "other"}[call.MD[status.KeyTenant][0]]
			if r, ok := call.Request.(*v1.SubmitJobsRequest); ok {
				groups++
				for _, job := range r.Jobs {
					require.Equal(t, want, job.Name)
				}
			}
		}
		require.Positive(t, groups)
	})
}

// Nothing is kept of callers that have gone, also if one of them hung up while it drove the others.
func TestSubmits_forgetTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		slowly(c, nil)
		s := submits.New(gatewaytest.Dial(t, c).Jobs())
		submit := func(ctx context.Context) error {
			_, _, err := s.Submit(ctx, client.Call{Tenant: "acme", User: "ann"}, &v1.SubmitJobRequest{Name: "x"}, time.Minute)
			return err
		}
		var all sync.WaitGroup
		begin := func(ctx context.Context) {
			all.Go(func() {
				if err := submit(ctx); ctx.Err() == nil {
					require.NoError(t, err)
				}
			})
			synctest.Wait()
		}
		for range submits.MaxCalls {
			begin(t.Context())
		}
		ctx, hangUp := context.WithCancel(t.Context())
		begin(ctx) // it drives the others
		for range 3 {
			begin(t.Context())
		}
		require.Positive(t, s.Callers())
		time.AfterFunc(25*time.Millisecond, hangUp)
		all.Wait()
		time.Sleep(time.Second)
		require.Zero(t, s.Callers())
	})
}
