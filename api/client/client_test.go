package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

var three = Config{Addrs: []string{"a:1", "b:1", "c:1"}}

func submit(c *Client, ctx context.Context, key string) (*v1.SubmitJobResponse, Answer, error) {
	var answer Answer
	ctx = WithCall(ctx, Call{Tenant: "t", IdempotencyKey: key, Answer: &answer})
	r, err := c.Jobs().SubmitJob(ctx, &v1.SubmitJobRequest{Name: "x"})
	return r, answer, err
}

func TestInvoke_findsTheLeaderAndStaysWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		b := f.add("b:1", leads)
		follower := func(ctx context.Context, _ *member) error { return answers(ctx, "7", "c1=b:1") }
		a, c := f.add("a:1", follower), f.add("c:1", follower)
		client := f.dial(t, three)
		for range 20 {
			_, answer, err := submit(client, within(t, time.Second), "")
			require.NoError(t, err)
			require.EqualValues(t, 7, answer.Index)
			require.Equal(t, 1, answer.Tries)
		}
		require.LessOrEqual(t, a.calls.Load()+c.calls.Load(), int64(1), "one answer is enough to know the leader")
		require.GreaterOrEqual(t, b.calls.Load(), int64(19))
		id, addr := client.Leader()
		require.Equal(t, "c1 b:1", id+" "+addr)
	})
}

func TestInvoke_aLeaderThatWasNotConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("a:1", func(ctx context.Context, _ *member) error { return answers(ctx, "1", "c9=z:1") })
		z := f.add("z:1", leads)
		client := f.dial(t, Config{Addrs: []string{"a:1"}})
		for range 3 {
			_, _, err := submit(client, within(t, time.Second), "")
			require.NoError(t, err)
		}
		require.EqualValues(t, 2, z.calls.Load())
	})
}

func TestInvoke_outcomes(t *testing.T) {
	cases := map[string]struct {
		first    func(context.Context, *member) error // serves at the coordinator that is called first
		key      string
		ok       bool
		attempts int64 // calls at all coordinators
	}{
		"not sent is repeated without a key":  {first: notSent, ok: true, attempts: 2},
		"not sent is repeated with a key":     {first: notSent, key: "k", ok: true, attempts: 2},
		"unknown is not repeated without key": {first: unknown, attempts: 1},
		"unknown is repeated with a key":      {first: unknown, key: "k", ok: true, attempts: 2},
		"a bare UNAVAILABLE is unknown":       {first: func(ctx context.Context, _ *member) error { return unavailable(ctx, "", "") }, attempts: 1},
		"a bare UNAVAILABLE with a key":       {first: func(ctx context.Context, _ *member) error { return unavailable(ctx, "", "") }, key: "k", ok: true, attempts: 2},
		"a wedged one is left with a key":     {first: wedged, key: "k", ok: true, attempts: 2},
		"a refusal is final": {
			first: func(context.Context, *member) error { return grpcstatus.Error(codes.FailedPrecondition, "no") }, key: "k", attempts: 1,
		},
		"a full backlog is the caller's": {
			first: func(context.Context, *member) error { return grpcstatus.Error(codes.ResourceExhausted, "full") }, key: "k", attempts: 1,
		},
		"a node that is silent is silent for every coordinator": {
			first: func(ctx context.Context, _ *member) error { return unavailable(ctx, status.NodeSilent, "") }, key: "k", attempts: 1,
		},
		"an internal error is final": {
			first: func(context.Context, *member) error { return grpcstatus.Error(codes.Internal, "oops") }, key: "k", attempts: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				a := f.add("a:1", tc.first)
				b := f.add("b:1", leads)
				client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
				client.learn("c0=a:1", true) // who is asked first
				_, answer, err := submit(client, within(t, 10*time.Second), tc.key)
				require.Equal(t, tc.ok, err == nil, "%v", err)
				require.Equal(t, tc.attempts, a.calls.Load()+b.calls.Load())
				require.EqualValues(t, tc.attempts, answer.Tries)
				if tc.key != "" && tc.ok {
					_, sawIt := b.keys.Load(tc.key)
					require.True(t, sawIt, "the repeated call carries the same key")
				}
			})
		})
	}
}

// The outcome of a failed call must be right for all of its tries together.
func TestInvoke_outcomeOfAllTries(t *testing.T) {
	bare := func(ctx context.Context, _ *member) error { return unavailable(ctx, "", "") }
	for name, tc := range map[string]struct {
		first, then func(context.Context, *member) error // nil: no coordinator listens
		want        string
	}{
		"nobody is there":                          {nil, nil, status.NotSent},
		"nobody takes it":                          {notSent, notSent, status.NotSent},
		"one may have taken it, the other has not": {unknown, notSent, status.Unknown},
		"one may have taken it, the other is gone": {unknown, nil, status.Unknown},
		"the connection broke":                     {bare, nil, status.Unknown},
		"no answer":                                {wedged, nil, status.Unknown},
		"a node is silent":                         {func(ctx context.Context, _ *member) error { return unavailable(ctx, status.NodeSilent, "") }, leads, status.NodeSilent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				for addr, behaviour := range map[string]func(context.Context, *member) error{"a:1": tc.first, "b:1": tc.then} {
					if behaviour != nil {
						f.add(addr, behaviour)
					}
				}
				client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
				client.learn("c0=a:1", true) // who is asked first
				_, answer, err := submit(client, within(t, 10*time.Second), "k")
				require.Error(t, err)
				require.Equal(t, tc.want, answer.Outcome)
			})
		})
	}
}

func TestInvoke_readsAreRepeatedWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("a:1", unknown)
		f.add("b:1", wedged)
		f.add("c:1", leads)
		client := f.dial(t, three)
		client.learn("c0=a:1", true)
		r, err := client.Jobs().GetJob(within(t, 20*time.Second), &v1.GetJobRequest{JobId: "job_1"})
		require.NoError(t, err)
		require.Equal(t, "c:1", r.GetJob().GetName())
	})
}

func TestInvoke_aWedgedLeaderCostsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.add("a:1", wedged)
		f.add("b:1", func(ctx context.Context, _ *member) error { return answers(ctx, "7", "") }) // names no leader
		client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
		client.learn("c0=a:1", true)
		start := time.Now()
		_, _, err := submit(client, within(t, 30*time.Second), "k1")
		require.NoError(t, err)
		require.Less(t, time.Since(start), 2*time.Second)
		for range 10 { // later calls do not wait again
			start = time.Now()
			_, _, err = submit(client, within(t, 30*time.Second), "k")
			require.NoError(t, err)
			require.Less(t, time.Since(start), 10*time.Millisecond)
		}
		require.EqualValues(t, 1, a.calls.Load())
	})
}

// The deadline of a try may pass at the coordinator a moment before it passes at the client. The client must treat this
// as a try without an answer, not as the answer that the caller's time is over (503, not 504).
func TestInvoke_aTryWhoseTimeRunsOutAtTheOtherEndIsOneThatGotNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.add("a:1", func(ctx context.Context, _ *member) error {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) - 5*time.Millisecond)
			return grpcstatus.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
		})
		client := f.dial(t, Config{Addrs: []string{"a:1"}})
		ctx := WithCall(within(t, 30*time.Second), Call{Tenant: "t", IdempotencyKey: "k", RetryFor: 2 * time.Second})
		_, err := client.Jobs().SubmitJob(ctx, &v1.SubmitJobRequest{Name: "x"})
		require.Equal(t, codes.Unavailable, grpcstatus.Code(err), err)
		require.Greater(t, a.calls.Load(), int64(1), "it is tried again")
	})
}

func TestInvoke_aCoordinatorThatDiesInMidCall(t *testing.T) {
	for name, tc := range map[string]struct {
		key string
		ok  bool
	}{"with a key": {"k", true}, "without": {"", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				entered := make(chan struct{})
				a := f.add("a:1", func(ctx context.Context, m *member) error {
					close(entered)
					return wedged(ctx, m)
				})
				f.add("b:1", leads)
				client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
				client.learn("c0=a:1", true)
				go func() {
					<-entered
					a.server.Stop()
				}()
				start := time.Now()
				_, _, err := submit(client, within(t, 10*time.Second), tc.key)
				require.Equal(t, tc.ok, err == nil, "%v", err)
				require.Less(t, time.Since(start), 100*time.Millisecond, "a broken connection is noticed at once")
				if !tc.ok {
					require.Equal(t, codes.Unavailable, grpcstatus.Code(err))
				}
			})
		})
	}
}

func TestInvoke_aDeadCoordinatorIsNotAskedAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t) // nobody at a:1
		f.add("b:1", leads)
		client := f.dial(t, Config{Addrs: []string{"a:1", "b:1"}})
		client.learn("c0=a:1", true)
		// The first try was never sent, so it can be repeated without a key.
		_, answer, err := submit(client, within(t, time.Second), "")
		require.NoError(t, err)
		require.Equal(t, 2, answer.Tries)
	})
}

func TestInvoke_waitsForALeaderToAppear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		elected := time.Now().Add(1200 * time.Millisecond)
		script := func(ctx context.Context, m *member) error {
			if time.Now().Before(elected) {
				return notSent(ctx, m)
			}
			return answers(ctx, "9", "c2=b:1")
		}
		total := int64(0)
		members := []*member{f.add("a:1", script), f.add("b:1", script), f.add("c:1", script)}
		client := f.dial(t, three)
		start := time.Now()
		_, _, err := submit(client, within(t, 30*time.Second), "")
		require.NoError(t, err)
		require.Less(t, time.Since(start), 1400*time.Millisecond)
		for _, m := range members {
			total += m.calls.Load()
		}
		require.Less(t, total, int64(80), "waiting must not be hammering")
	})
}

func TestInvoke_givesUpInBoundedTime(t *testing.T) {
	for name, tc := range map[string]struct {
		script   func(context.Context, *member) error
		retryFor time.Duration
		deadline time.Duration
		want     codes.Code
		atMost   time.Duration
	}{
		"no leader: RetryFor":          {notSent, 10 * time.Second, 30 * time.Second, codes.Unavailable, 10200 * time.Millisecond},
		"no leader: the deadline":      {notSent, 0, 3 * time.Second, codes.Unavailable, 3 * time.Second},
		"all wedged: RetryFor":         {wedged, 10 * time.Second, 30 * time.Second, codes.Unavailable, 10200 * time.Millisecond},
		"all wedged: the deadline":     {wedged, 10 * time.Second, 4 * time.Second, codes.Unavailable, 4 * time.Second},
		"a slow call and no time left": {wedged, 10 * time.Second, time.Second, codes.DeadlineExceeded, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				for _, addr := range three.Addrs {
					f.add(addr, tc.script)
				}
				client := f.dial(t, three)
				ctx := WithCall(within(t, tc.deadline), Call{Tenant: "t", IdempotencyKey: "k", RetryFor: tc.retryFor})
				start := time.Now()
				_, err := client.Jobs().SubmitJob(ctx, &v1.SubmitJobRequest{})
				require.Equal(t, tc.want, grpcstatus.Code(err), "%v", err)
				require.LessOrEqual(t, time.Since(start), tc.atMost)
			})
		})
	}
}

func TestInvoke_theCallerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("a:1", wedged)
		client := f.dial(t, Config{Addrs: []string{"a:1"}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _, err := submit(client, ctx, "k")
		require.Equal(t, codes.Canceled, grpcstatus.Code(err))
	})
}

func TestInvoke_metadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var got metadata.MD
		f.add("a:1", func(ctx context.Context, m *member) error {
			got, _ = metadata.FromIncomingContext(ctx)
			return leads(ctx, m)
		})
		client := f.dial(t, Config{Addrs: []string{"a:1"}, Secret: "s"})
		ctx := metadata.AppendToOutgoingContext(within(t, time.Second), "x-extra", "e")
		ctx = WithCall(ctx, Call{Tenant: "t", User: "u", RequestID: "r", IdempotencyKey: "k", Consistency: status.Stale, DriveToken: "d", AtlasToken: "l"})
		_, err := client.Jobs().GetJob(ctx, &v1.GetJobRequest{})
		require.NoError(t, err)
		for key, want := range map[string]string{
			status.KeySecret: "s", status.KeyTenant: "t", status.KeyUser: "u", status.KeyRequestID: "r",
			status.KeyIdempotency: "k", status.KeyConsistency: status.Stale, "x-extra": "e",
			status.KeyDriveToken: "d", status.KeyAtlasToken: "l",
		} {
			require.Equal(t, []string{want}, got[key], key)
		}
	})
}

func TestNewStream_passesOverTheDeadAndTheIll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("b:1", leads)
		client := f.dial(t, three)
		for range 6 {
			s, err := client.Jobs().StreamJobLogs(within(t, time.Second), &v1.StreamJobLogsRequest{})
			require.NoError(t, err)
			m, err := s.Recv()
			require.NoError(t, err)
			require.Equal(t, "b:1", m.Entries[0].Message)
			_, err = s.Recv()
			require.ErrorContains(t, err, "EOF")
		}
	})
}

func TestDial_refusesWhatCannotWork(t *testing.T) {
	_, err := Dial(Config{})
	require.ErrorContains(t, err, "no coordinator address")
	_, err = Dial(Config{Addrs: []string{"no-port"}})
	require.ErrorContains(t, err, "coordinator address")
}

func TestTargets_areBounded(t *testing.T) {
	client, err := Dial(Config{Addrs: []string{"a:1"}, DialOptions: []grpc.DialOption{}})
	require.NoError(t, err)
	for i := range 200 {
		client.learn("x="+string(rune('a'+i%26))+string(rune('a'+i/26))+":1", true)
	}
	require.LessOrEqual(t, len(*client.targets.Load()), maxTargets)
	require.NoError(t, client.Close())
}
