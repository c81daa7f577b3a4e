package credentials_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/auth"
	"github.com/mindcoordinator/mind/gateway/gatewaytest"
)

func sha(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// issuer makes a coordinator that knows some tokens, and counts the look-ups.
func issuer(c *gatewaytest.Coordinator, good ...string) (asked *atomic.Int64) {
	asked = &atomic.Int64{}
	known := map[[32]byte]bool{}
	for _, token := range good {
		known[sha(token)] = true
	}
	c.On("VerifyToken", func(_ context.Context, r any) (any, error) {
		asked.Add(1)
		time.Sleep(2 * time.Millisecond)
		if known[[32]byte(r.(*v1.VerifyTokenRequest).GetDigest())] {
			return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
		}
		return nil, grpcstatus.Error(codes.NotFound, "nobody's")
	})
	return asked
}

// A flood of unknown tokens causes few look-ups at the leader, and callers with valid tokens from the same address are
// hardly affected.
func TestGuesses_aFloodOfUnknownTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		before, after := auth.MintToken(), auth.MintToken()
		asked := issuer(c, before, after)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		me := func(token string) *gatewaytest.Answer {
			return g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+token)
		}
		require.Equal(t, 200, me(before).Code)
		require.EqualValues(t, 1, asked.Load())

		var refused, turnedAway atomic.Int64
		var flood sync.WaitGroup
		for range 300 { // within 0.2 s
			flood.Go(func() {
				switch a := me(auth.MintToken()); a.Code {
				case 401:
					refused.Add(1)
				case 429:
					turnedAway.Add(1)
					if a.Error.Code != "RATE_LIMITED" || a.Error.RetryAfter != 1 || a.Header.Get("Retry-After") != "1" {
						t.Error(a.Body)
					}
				default:
					t.Error(a.Body)
				}
			})
			time.Sleep(200 * time.Millisecond / 300)
		}
		flood.Wait()
		require.EqualValues(t, 300, refused.Load()+turnedAway.Load())
		require.Equal(t, refused.Load(), asked.Load()-1)
		require.LessOrEqual(t, asked.Load(), int64(25))

		a := me(auth.MintToken())
		require.Equal(t, 429, a.Code)
		require.Equal(t, "too many unknown tokens from 192.0.2.1: try again in 1 s; tokens that were valid here before are not affected", a.Error.Message)
		require.Equal(t, 200, g.Do("GET", "/v1/me", "").Code, "tokens of the configuration are not looked up")
		require.Equal(t, 200, me(before).Code)
		time.Sleep(auth.TrustToken + time.Second)
		for range 100 {
			me(auth.MintToken())
		}
		require.Equal(t, 200, me(before).Code, "it is looked up again, because it was good before")
		require.Equal(t, 429, me(after).Code)
		for range 1000 {
			me(auth.MintToken())
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 200, me(after).Code, "a new one behind the address of the flood is good when it comes again")
		metrics := g.Do("GET", "/metrics", "").Body
		require.Contains(t, metrics, `mind_denied_total{reason="UNKNOWN_TOKENS"}`)
		require.NotContains(t, metrics, `reason="RATE_LIMITED"`)
	})
}

// One unknown token causes one look-up per second, however often it is sent; and so does one valid token that many
// callers send at once.
func TestGuesses_oneTokenManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		good := auth.MintToken()
		asked := issuer(c, good)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		bad := auth.MintToken()
		for range 100 {
			require.Equal(t, 401, g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+bad).Code)
		}
		require.EqualValues(t, 1, asked.Load())
		var together sync.WaitGroup
		for range 200 {
			together.Go(func() {
				if a := g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+good); a.Code != 200 {
					t.Error(a.Body)
				}
			})
		}
		together.Wait()
		require.EqualValues(t, 2, asked.Load())
	})
}

// Requests that wait for another request's look-up get an answer even if that request's caller hangs up.
func TestGuesses_whoeverAskedHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var asked atomic.Int64
		c.On("VerifyToken", func(ctx context.Context, _ any) (any, error) {
			if asked.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &v1.VerifyTokenResponse{Token: &v1.Token{TenantId: "acme", UserId: "ann", Permissions: auth.AllPermissions}}, nil
		})
		ctx, hangUp := context.WithCancel(t.Context())
		tokens := auth.NewAPITokens(v1.NewTokenServiceClient(gatewaytest.Dial(t, c)))
		first := make(chan error, 1)
		go func() {
			_, err := tokens.Authenticate(ctx, auth.TokenStart+"x")
			first <- err
		}()
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			_, err := tokens.Authenticate(t.Context(), auth.TokenStart+"x")
			second <- err
		}()
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load())
		hangUp()
		require.Error(t, <-first)
		require.NoError(t, <-second)
		require.EqualValues(t, 2, asked.Load())
	})
}

// Many callers that send new valid tokens at once, as after a restart of the gateway behind a proxy, do not count as a
// flood of guesses.
func TestGuesses_manyGoodTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		var good []string
		for range 1000 {
			good = append(good, auth.MintToken())
		}
		issuer(c, good...)
		g := gatewaytest.NewGate(t, gatewaytest.Config(c))
		for _, token := range good {
			require.Equal(t, 200, g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+token).Code)
		}
	})
}

// Behind a trusted proxy, the flood of one client does not affect another one.
func TestProxies_boundEachClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gatewaytest.NewCoordinator(t)
		issuer(c)
		config := gatewaytest.Config(c)
		config.TrustedProxies = []string{"192.0.2.1"} // the client of a test's request
		g := gatewaytest.NewGate(t, config)
		from := func(client string) int {
			return g.Do("GET", "/v1/me", "", "Authorization", "Bearer "+auth.MintToken(), "X-Forwarded-For", client).Code
		}
		for range 50 {
			from("203.0.113.7")
		}
		require.Equal(t, 429, from("203.0.113.7"))
		for n := range 20 {
			require.Equal(t, 401, from(fmt.Sprint("198.51.100.", n)))
		}
	})
}
