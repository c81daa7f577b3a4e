package datacache

// Progress is the progress of a transfer.
type Progress struct {
	// Path of the source, without secrets.
	Path string
	// Waiting: the transfer waits for its turn.
	Waiting bool
	// Done is the number of bytes that have arrived, Total the number of all bytes; -1: unknown.
	Done, Total int64
}

// Progress returns the progress of the transfer that an owner waits for. It returns false if the owner waits for none.
func (c *Cache) Progress(owner string) (Progress, bool) {
	f := c.flightOf(owner)
	if f == nil {
		return Progress{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return Progress{Path: f.path, Waiting: !f.begun, Done: f.here, Total: f.source.Size()}, true
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
