package gossip

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// State is what this replica believes of a member.
type State string

// The states of a member. Suspect: it missed pings, and has a few seconds to
// refute. Dead: it did not. Left: it said goodbye.
const (
	Alive   State = "alive"
	Suspect State = "suspect"
	Dead    State = "dead"
	Left    State = "left"
)

// Member is one participant as this replica sees it.
type Member struct {
	Name        string
	Role        string
	Addr        string
	State       State
	Incarnation uint32
	Meta        map[string]string
	// Since is when this replica saw the member enter its state.
	Since time.Time
}

// Config says how to take part.
type Config struct {
	// Name is the id of the component, unique among all members.
	Name string
	// Role is coordinator or agent.
	Role string
	// Bind is host:port to listen on (UDP and TCP); Advertise is where others
	// reach it (default: what was bound).
	Bind      string
	Advertise string
	// SecretKey encrypts everything: 16, 24 or 32 bytes.
	SecretKey []byte
	// Join are addresses of any members; they are tried until one answers.
	Join []string
	// Meta travels with the member; with the role at most 512 bytes encoded.
	Meta   map[string]string
	Logger *slog.Logger
}

// Pool is this process's membership.
type Pool struct{}

// Start begins to listen and to join.
func Start(cfg Config) (*Pool, error) { return nil, errors.New("not built yet") }

// Members returns everybody this replica has seen, by name.
func (p *Pool) Members() []Member { return nil }

// Changes is signalled after the view changed.
func (p *Pool) Changes() <-chan struct{} { return nil }

// Addr is the advertised address.
func (p *Pool) Addr() string { return "" }

// Leave says goodbye and stops.
func (p *Pool) Leave(ctx context.Context) error { return nil }
