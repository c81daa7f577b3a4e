package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// keepLinks asks the other servers for an answer now and then, as long as this
// replica does not lead. So a connection to each of them is open when it stands
// for election, which therefore waits for no handshake, and it knows how long
// they take before that matters. It asks more often while there is no leader. A
// leader has its heartbeats.
func (n *Node) keepLinks() {
	tick := time.NewTicker(n.cfg.HeartbeatTimeout / 2)
	defer tick.Stop()
	var mu sync.Mutex
	asking := map[raft.ServerID]bool{}
	var running sync.WaitGroup
	defer running.Wait()
	for i := 0; ; i++ {
		leader, _ := n.Leader()
		for _, s := range n.raft.GetConfiguration().Configuration().Servers {
			mu.Lock()
			due := string(s.ID) != n.cfg.ID && !asking[s.ID] && leader != n.cfg.ID && (leader == "" || i%4 == 0)
			if due {
				asking[s.ID] = true
			}
			mu.Unlock()
			if !due {
				continue
			}
			running.Go(func() {
				n.transport.probe(s.ID, s.Address, n.raft.CurrentTerm())
				mu.Lock()
				defer mu.Unlock()
				delete(asking, s.ID)
			})
		}
		select {
		case <-tick.C:
		case <-n.background.Done():
			return
		}
	}
}
