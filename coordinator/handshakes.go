package coordinator

import (
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
)

// A TLS handshake costs a coordinator processor time, and after an outage all agents connect at once. Go schedules all
// goroutines alike: a Raft heartbeat would wait behind a thousand handshakes, and the resulting election would make all
// agents reconnect once more. So handshakes of agents and callers take turns, on at most half of the processors. Those
// of Raft, on its own port, do not wait for them.
const (
	// turnWithin is how long a caller may wait for its first turn. Callers give up after some seconds (see agent and
	// api/client), and work for a caller that is gone is wasted.
	turnWithin = 4 * time.Second
	// maxWaiting is how many callers may wait for their first turn; more are rejected.
	maxWaiting = 2048
	// handshakeWithin limits a handshake, including waiting for turns and for the caller.
	handshakeWithin = 15 * time.Second
)

var (
	errTooManyHandshakes = errors.New("too many handshakes are waiting")
	errNoTurn            = errors.New("no processor was free for the handshake in time")
)

// handshakes are server credentials whose handshakes take turns.
type handshakes struct {
	credentials.TransportCredentials
	turns *turns
}

func newHandshakes(creds credentials.TransportCredentials, registry *prometheus.Registry) *handshakes {
	h := &handshakes{creds, &turns{free: max(1, runtime.GOMAXPROCS(0)/2), most: maxWaiting, within: turnWithin}}
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "mind_handshakes_waiting", Help: "TLS handshakes of agents and callers that wait for their first turn.",
		}, func() float64 { waiting, _ := h.turns.counts(); return float64(waiting) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "mind_handshakes_refused_total", Help: "TLS handshakes that were rejected because too many were waiting, or because they waited too long.",
		}, func() float64 { _, refused := h.turns.counts(); return float64(refused) }),
	)
	return h
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &inTurn{Conn: raw, turns: h.turns}
	defer c.finish()
	return h.TransportCredentials.ServerHandshake(c)
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.turns}
}

// inTurn is a connection during its handshake. Once its hello has arrived it holds a turn from each read to the next, while
// something is computed, and not while it waits for the peer: a silent peer blocks no other.
type inTurn struct {
	net.Conn
	turns *turns
	// Used by the goroutine of the handshake, and not changed after it.
	begun, holds, over bool
	header             [recordHeader]byte // of the first record
	got                int                // bytes that were read before the first turn
}

// recordHeader is the length of the header of a TLS record. It ends with the length of the content (RFC 8446, section 5.1).
const recordHeader = 5

// hello records a part of the hello, and reports whether it is complete. Until then there is nothing to compute, and the
// handshake has not begun.
func (c *inTurn) hello(part []byte) (whole bool) {
	if c.got < recordHeader {
		copy(c.header[c.got:], part)
	}
	c.got += len(part)
	return c.got >= recordHeader && c.got >= recordHeader+int(binary.BigEndian.Uint16(c.header[3:]))
}

// Read implements net.Conn.
func (c *inTurn) Read(b []byte) (int, error) {
	if c.over {
		return c.Conn.Read(b)
	}
	c.release()
	n, err := c.Conn.Read(b)
	if err != nil || !c.begun && !c.hello(b[:n]) {
		return n, err
	}
	if err := c.turns.take(c.begun); err != nil {
		return 0, err
	}
	c.begun, c.holds = true, true
	return n, nil
}

func (c *inTurn) release() {
	if c.holds {
		c.holds = false
		c.turns.give()
	}
}

func (c *inTurn) finish() {
	c.release()
	c.over = true
}

// turns limits how many handshakes are computed at a time. Handshakes that have begun come first, then by arrival.
type turns struct {
	most   int
	within time.Duration

	mu           sync.Mutex
	free         int
	begun, fresh []chan struct{}
	refused      int
}

// take waits for a turn; the caller must call give. A handshake that has begun is not rejected: its work would be lost.
func (t *turns) take(begun bool) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	if !begun && len(t.fresh) >= t.most {
		t.refused++
		t.mu.Unlock()
		return errTooManyHandshakes
	}
	mine := make(chan struct{})
	if begun {
		t.begun = append(t.begun, mine)
		t.mu.Unlock()
		<-mine
		return nil
	}
	t.fresh = append(t.fresh, mine)
	t.mu.Unlock()
	timer := time.NewTimer(t.within)
	defer timer.Stop()
	select {
	case <-mine:
		return nil
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, c := range t.fresh {
		if c == mine {
			t.fresh = append(t.fresh[:i], t.fresh[i+1:]...)
			t.refused++
			return errNoTurn
		}
	}
	return nil // its turn came at the same moment
}

// give ends a turn, and starts the next.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range []*[]chan struct{}{&t.begun, &t.fresh} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	t.free++
}

func (t *turns) counts() (waiting, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.fresh), t.refused
}
