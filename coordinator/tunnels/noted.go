package tunnels

import (
	"sync"
	"time"
)

const (
	// notedFor is for how long one record in the audit log stands for all connections of a user to one port: a browser opens
	// dozens.
	notedFor = 10 * time.Minute
	// mostNoted limits what is remembered; beyond it, each connection has its record.
	mostNoted = 1000
)

// connected is a user at a port.
type connected struct {
	tenant, user, token, job string
	rank, port               int32
}

// noted remembers which connections are in the audit log. The zero value is ready to use.
type noted struct {
	mu sync.Mutex
	at map[connected]time.Time
}

// recently reports whether there is a record of the same.
func (n *noted) recently(c connected, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.at[c]
	return ok && now.Sub(at) < notedFor
}

// note remembers a connection to a port.
func (n *noted) note(c connected, now time.Time) {
	if c.port == 0 {
		return // each shell has its record
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for old, at := range n.at {
		if now.Sub(at) >= notedFor {
			delete(n.at, old)
		}
	}
	if n.at == nil {
		n.at = map[connected]time.Time{}
	}
	if len(n.at) < mostNoted {
		n.at[c] = now
	}
}
