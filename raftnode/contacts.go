package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts stores when each of the other replicas last acknowledged this one as its leader, and where its log ended
// then. Heartbeats update it.
type contacts struct {
	mu   sync.Mutex
	last map[string]contact
}

type contact struct {
	at    time.Time
	term  uint64
	index uint64 // of the last entry in its log
}

// heard records an answer in the term in which the message was sent.
func (c *contacts) heard(id string, resp *raft.AppendEntriesResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]contact{}
	}
	c.last[id] = contact{at: time.Now(), term: resp.Term, index: resp.LastLog}
}

// of returns the newest answer in a term, or the zero value if there was none.
func (c *contacts) of(id string, term uint64) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.last[id]; last.term == term {
		return last
	}
	return contact{}
}
