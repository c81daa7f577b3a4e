package fanout

import "context"

// Subject is something to be watched, such as the log of one job.
type Subject struct {
	// Key is the same for all watchers that are told the same, and of nobody else: it names the tenant, the object and
	// what else changes what is told. Empty: this watcher shares with nobody.
	Key string
	// Opening, when it is set, is a beginning that only the coordinator can find, such as the last ten lines. It is used
	// by watchers without a cursor.
	Opening string
	// Follow reads until all was told or ctx ends, and closes out. It begins after the cursor; without one where Opening
	// says, or at the start when opening is false.
	Follow func(ctx context.Context, opening bool, cursor string, out chan<- News)
	// Place reads a cursor, and Cursor writes one.
	Place  func(cursor string) (Place, bool)
	Cursor func(Place) string
}

// News is what a subject tells.
type News struct {
	Kind  Kind
	Piece Piece
	// Index of the state, of Begun.
	Index uint64
	// Err is why the coordinator was Lost, or how all Ended; nil: everything was told.
	Err error
}

// Kind of news.
type Kind int

// The kinds.
const (
	Asked Kind = iota // a coordinator has the call; nothing came yet
	Begun             // a coordinator has taken the call
	Told              // there is a Piece
	Lost              // the upstream broke, and will be opened again
	Ended
)

// Piece is some events, one after the other as they are written to watchers.
type Piece struct {
	Frames []byte
	Marks  []Mark
}

// Mark is where an event ends.
type Mark struct {
	// Epoch, Part and Offset are the place behind the event; see Place.
	Epoch, Offset uint64
	Part          uint16
	// IDLen is the length of the line with the id ("id: CURSOR\n") at the beginning of the frame; 0: it has none.
	IDLen int
	// End of the frame in Frames; frames follow each other. An empty one only moves the place.
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
