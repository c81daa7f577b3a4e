package agent

import "sync"

// minders are the goroutines that follow tasks. None is started any more once somebody waits for their end: what was to be
// done is for the next agent.
type minders struct {
	mu    sync.Mutex
	over  bool
	group sync.WaitGroup
}

// Go starts one.
func (m *minders) Go(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		m.group.Go(f)
	}
}

// Wait waits for the end of all.
func (m *minders) Wait() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.group.Wait()
}
