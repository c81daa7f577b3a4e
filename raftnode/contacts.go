package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts remembers when each of the others last acknowledged this replica as
// their leader, and how far their logs reached then. Heartbeats keep it fresh.
type contacts struct {
	mu   sync.Mutex
	last map[string]contact
}

type contact struct {
	at    time.Time
	term  uint64
	index uint64 // of the last entry in its log
}

// heard takes down an answer to a message of a term.
func (c *contacts) heard(id string, resp *raft.AppendEntriesResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	c.last[id] = contact{at: time.Now(), term: resp.Term, index: resp.LastLog}
}

// of returns the newest answer in a term; the zero value: there was none.
func (c *contacts) of(id string, term uint64) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[id]; last.term == term {
		return last
	}
	return contact{}
}
