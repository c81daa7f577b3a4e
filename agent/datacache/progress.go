package datacache

// Progress is how far a transfer is.
type Progress struct {
	// Path of the source, without what is secret.
	Path string
	// Waiting: others are being fetched, and have the turn.
	Waiting bool
	// Done is how many bytes are here, Total how many there will be; -1: not known.
	Done, Total int64
}

// Progress says how far the transfer is that an owner waits for; false: the owner waits for none.
func (c *Cache) Progress(owner string) (Progress, bool) {
	f := c.flightOf(owner)
	if f == nil {
		return Progress{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return Progress{Path: f.path, Waiting: !f.begun, Done: f.here, Total: f.source.size()}, true
}

func (c *Cache) flightOf(owner string) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.flights {
		for r := range f.waiting {
			if r.Owner == owner {
				return f
			}
		}
	}
	return nil
}
