package fanout

import "context"

// Subject is something to watch, such as the log of one job.
type Subject struct {
	// Key is equal for watchers that see the same events, and only for them: it contains the tenant, the object and
	// everything else that selects events. Empty: this watcher shares with no other.
	Key string
	// Opening, if set, names a start that only the coordinator can find, such as the last ten lines. Watchers without a
	// cursor use it.
	Opening string
	// Follow reads until the subject or ctx ends, and closes out. It starts after the cursor; without one, at Opening, or
	// at the start if opening is false.
	Follow func(ctx context.Context, opening bool, cursor string, out chan<- News)
	// Place parses a cursor, and Cursor formats one.
	Place  func(cursor string) (Place, bool)
	Cursor func(Place) string
}

// News is a report of a subject.
type News struct {
	Kind  Kind
	Piece Piece
	// Index of the state, of Begun.
	Index uint64
	// Err is why the coordinator was Lost, or how the subject Ended; nil: everything was sent.
	Err error
}

// Kind of news.
type Kind int

// The kinds.
const (
	Asked Kind = iota // a coordinator has the call but has not answered
	Begun             // a coordinator accepted the call
	Told              // there is a Piece
	Lost              // the upstream broke and will be reopened
	Ended
)

// Piece is a number of events, encoded as they are written to watchers.
type Piece struct {
	Frames []byte
	Marks  []Mark
}

// Mark is where an event ends.
type Mark struct {
	// Epoch, Part and Offset are the place behind the event; see Place.
	Epoch, Offset uint64
	Part          uint16
	// IDLen is the length of the id line ("id: CURSOR
	// ") at the start of the frame; 0: no id.
	IDLen int
	// End of the frame in Frames; frames follow each other. An empty frame only moves the place.
	End int
}

const idField = "id: "

// id of a frame.
func id(frame []byte, m *Mark) []byte {
	if m.IDLen <= len(idField) {
		return nil
	}
	return frame[len(idField) : m.IDLen-1]
}
