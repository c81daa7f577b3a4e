package tunnel

import "io"

// Escape reads the keys of a user, and leaves when the user types ~. at the beginning of a line. ~~ there is one ~.
type Escape struct {
	From  io.Reader
	Leave func()

	// within: the last key was not the end of a line. held: it was a ~ that may begin an escape.
	within, held bool
	left         bool
	pending      []byte
}

// Read implements io.Reader.
func (e *Escape) Read(p []byte) (int, error) {
	for len(e.pending) == 0 {
		if e.left {
			return 0, io.EOF
		}
		n, err := e.From.Read(p)
		for _, key := range p[:n] {
			if e.take(key); e.left {
				e.Leave()
				break
			}
		}
		if err != nil && len(e.pending) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

func (e *Escape) take(key byte) {
	if e.held {
		e.held = false
		switch key {
		case '.':
			e.left = true
			return
		case '~':
		default:
			e.pending = append(e.pending, '~')
		}
	} else if key == '~' && !e.within {
		e.held = true
		return
	}
	e.pending = append(e.pending, key)
	e.within = key != '\r' && key != '\n'
}
