package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// keepLinks probes the other servers regularly while this replica does not lead, and more often while no replica leads.
// So when it stands for election it has an open connection to each of them, which saves handshakes, and knows how long
// they take to answer. A leader needs no probes, because it sends heartbeats.
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
				_ = n.transport.probe(s.ID, s.Address, n.raft.CurrentTerm())
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
