package coordinator

import "github.com/mindcoordinator/mind/gossip"

// coordinatorLiveness returns a function that looks up the state of a coordinator in gossip.
func (s *server) coordinatorLiveness() func(id string) string {
	states := map[string]gossip.State{s.config.ID: gossip.Alive}
	if s.pool != nil {
		for _, m := range s.pool.Members() {
			if m.Name != s.config.ID {
				states[m.Name] = m.State
			}
		}
	}
	return func(id string) string {
		if state, ok := states[id]; ok {
			return string(state)
		}
		return "unknown"
	}
}
