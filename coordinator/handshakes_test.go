package coordinator

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"

	"github.com/mindcoordinator/mind/pki"
)

// busy are server credentials whose handshakes each keep a processor busy for a second.
type busy struct {
	*handshakes
	t      *testing.T
	client *tls.Config

	mu        sync.Mutex
	now, most int
}

func newBusy(t *testing.T, ca *pki.CA, turns *turns) *busy {
	files, err := ca.Issue(t.TempDir(), "c1", pki.RoleCoordinator, "127.0.0.1")
	require.NoError(t, err)
	b := &busy{t: t}
	config, err := files.ServerTLS()
	require.NoError(t, err)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	config.GetConfigForClient = nil
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		b.mu.Lock()
		b.now++
		b.most = max(b.most, b.now)
		b.mu.Unlock()
		time.Sleep(time.Second)
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
		return &pair, nil
	}
	config.Certificates = nil
	config.Time = nil
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = nil
	files, err = ca.Issue(t.TempDir(), "n1", pki.RoleAgent)
	require.NoError(t, err)
	pair2, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	b.client = &tls.Config{Certificates: []tls.Certificate{pair2}, InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	b.handshakes = &handshakes{credentials.NewTLS(config), turns}
	return b
}

// call makes a handshake, and returns the server's error.
func (b *busy) call() error {
	near, far := net.Pipe()
	go func() {
		c := tls.Client(near, b.client)
		_ = c.Handshake()
		_, _ = c.Read(make([]byte, 1))
		_ = c.Close()
	}()
	conn, _, err := b.ServerHandshake(far)
	if err == nil {
		_ = conn.Close()
	}
	_ = far.Close()
	return err
}

func TestHandshakes_takeTurns(t *testing.T) {
	ca, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, ca, &turns{free: 2, most: 100, within: time.Minute})
		began := time.Now()
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				if err := b.call(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, 2, b.most)
		require.Equal(t, 6*time.Second, time.Since(began), "two at a time, and always two")
		waiting, refused := b.turns.counts()
		require.Zero(t, waiting+refused)
		require.Equal(t, 2, b.turns.free)
	})
}

// A caller that sends nothing, or an incomplete hello, takes no turn.
func TestHandshakes_silentCallersKeepNobodyWaiting(t *testing.T) {
	ca, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, ca, &turns{free: 1, most: 100, within: time.Minute})
		var silent sync.WaitGroup
		var ends []net.Conn
		for i := range 50 {
			near, far := net.Pipe()
			ends = append(ends, near)
			silent.Go(func() { _, _, _ = b.ServerHandshake(far) })
			if i%2 == 0 {
				_, err := near.Write([]byte{22, 3, 1, 2}) // the beginning of a hello
				require.NoError(t, err)
			}
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, b.call())
		require.Equal(t, time.Second, time.Since(began))
		for _, c := range ends {
			_ = c.Close()
		}
		silent.Wait()
		require.Equal(t, 1, b.turns.free)
	})
}

// A client that has sent a part of its hello waits for its first turn like others, however many parts the hello comes
// in.
func TestHandshakes_aHelloInPartsHasNotBegun(t *testing.T) {
	c := &inTurn{}
	for _, part := range [][]byte{{22, 3}, {1, 0}, {4, 1, 2, 3}} {
		require.False(t, c.hello(part))
	}
	require.True(t, c.hello([]byte{4}))
}

// Callers beyond the limit are rejected at once, and callers that waited for too long before any computation.
func TestHandshakes_aBoundedQueue(t *testing.T) {
	ca, err := pki.CreateCA(t.TempDir())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, ca, &turns{free: 1, most: 5, within: 2500 * time.Millisecond})
		var all sync.WaitGroup
		var mu sync.Mutex
		ended := map[error]int{}
		for range 10 {
			all.Go(func() {
				err := b.call()
				mu.Lock()
				defer mu.Unlock()
				ended[err]++
			})
		}
		all.Wait()
		require.Equal(t, map[error]int{nil: 3, errTooManyHandshakes: 4, errNoTurn: 3}, ended, "one at once, two within 2.5 s")
		_, refused := b.turns.counts()
		require.Equal(t, 7, refused)
		require.Equal(t, 1, b.turns.free)
	})
}

func TestTurns_whoHasBegunGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{free: 1, most: 10, within: time.Minute}
		require.NoError(t, turns.take(false))
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for _, who := range []string{"fresh 1", "fresh 2", "begun 1", "begun 2"} {
			all.Go(func() {
				if turns.take(who[:5] == "begun") == nil {
					mu.Lock()
					order = append(order, who)
					mu.Unlock()
					turns.give()
				}
			})
			synctest.Wait()
		}
		turns.give()
		all.Wait()
		require.Equal(t, []string{"begun 1", "begun 2", "fresh 1", "fresh 2"}, order)
	})
}

func TestHandshakes_atLeastOneAtATime(t *testing.T) {
	h := newHandshakes(credentials.NewTLS(&tls.Config{}), prometheus.NewRegistry())
	require.Positive(t, h.turns.free)
	require.Same(t, h.turns, h.Clone().(*handshakes).turns)
}
