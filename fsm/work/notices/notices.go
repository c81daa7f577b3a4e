// Package notices has the messages to the URL of a job, with those that were not sent yet, as a part of the job's row.
//
// Notices follow from the change of a row, whichever command makes it. The leader sends them (package coordinator/notify).
package notices

import (
	"slices"

	"github.com/mindcoordinator/mind/fsm/kernel"
)

// MaxURL bounds the URL of a job; bytes.
const MaxURL = 2048

// DefaultWait is how long a job waits in its queue until that is told, if it does not say; nanoseconds.
const DefaultWait = int64(3600 * 1e9)

// Event says what a notice is about.
type Event uint8

// The events. A job that fails has Failed, or Ended if Failed is not asked for. An array has Failed at the first element that fails, and
// Ended at its end.
const (
	Started Event = iota + 1
	Failed
	Ended
	Waiting
)

var names = map[Event]string{Started: "started", Failed: "failed", Ended: "ended", Waiting: "waiting"}

// String is the event as users write it. The names are published.
func (e Event) String() string { return names[e] }

// Parse reads an event as users write it.
func Parse(text string) (Event, bool) {
	for _, e := range All() {
		if names[e] == text {
			return e, true
		}
	}
	return 0, false
}

// Set is a set of events.
type Set uint8

// Default has the events of a job that does not say.
const Default = Set(1<<Started | 1<<Failed | 1<<Ended)

const all = Default | 1<<Waiting

// Has says whether an event is in the set.
func (s Set) Has(e Event) bool { return s&(1<<e) != 0 }

// With is the set with an event.
func (s Set) With(e Event) Set { return s | 1<<e }

// All lists the events.
func All() []Event { return []Event{Started, Failed, Ended, Waiting} }

// Wanted has the wishes of a job.
type Wanted struct {
	URL string `cbor:"1,keyasint,omitempty"`
	On  Set    `cbor:"2,keyasint,omitempty"`
	// Wait is how long the job waits in its queue until that is told; nanoseconds.
	Wait int64 `cbor:"3,keyasint,omitempty"`
}

// Notices are the wishes of a job, and its messages that were not sent yet. It is part of a row: a changed one is a copy.
type Notices struct {
	Wanted Wanted `cbor:"1,keyasint,omitempty"`
	// Since is when the job began to wait in its queue; 0: it does not, or that was told.
	Since int64 `cbor:"2,keyasint,omitempty"`
	// Begun: it has run, and that is not told again.
	Begun bool `cbor:"3,keyasint,omitempty"`
	// Count counts the notices, and Untold has those that were not sent yet, the oldest first.
	Count  uint32   `cbor:"4,keyasint,omitempty"`
	Untold []Notice `cbor:"5,keyasint,omitempty"`
	// ToldAt is when a notice was taken last, and Err why the newest try failed.
	ToldAt int64  `cbor:"6,keyasint,omitempty"`
	Err    string `cbor:"7,keyasint,omitempty"`
}

// New returns the notices of a new job; nil: it asks for none.
func New(w Wanted) *Notices {
	if w.On &= all; w.URL == "" || len(w.URL) > MaxURL || w.On == 0 {
		return nil
	}
	if w.Wait <= 0 {
		w.Wait = DefaultWait
	}
	return &Notices{Wanted: w}
}

// Notice is a message to the URL of a job.
type Notice struct {
	// Number orders the notices of a job, and names one of them however often it is sent.
	Number uint32 `cbor:"1,keyasint,omitempty"`
	Event  Event  `cbor:"2,keyasint,omitempty"`
	At     int64  `cbor:"3,keyasint,omitempty"`
}

// Moment has all of a row that notices depend on.
type Moment struct {
	// Waits: the scheduler may start it, and it has no places. Runs: its processes do.
	Waits, Runs bool
	// Over: it has ended; Failed: without success, and not because somebody wanted that.
	Over, Failed bool
	// Broken: it is an array, and one of its elements has failed.
	Array, Broken bool
}

// After returns the notices of a job that has changed from one moment to another; n itself if they are as they were.
func (n *Notices) After(was, is Moment, now int64) *Notices {
	c := *n
	switch {
	case is.Waits && !was.Waits && n.Wanted.On.Has(Waiting):
		c.Since = now
	case !is.Waits:
		c.Since = 0
	}
	var news []Event
	if is.Runs && !n.Begun {
		c.Begun = true
		news = append(news, Started)
	}
	if is.Broken && !was.Broken {
		news = append(news, Failed)
	}
	if is.Over != was.Over {
		switch {
		case !is.Over:
			c.Begun = is.Runs // somebody retries it
		case is.Failed && !is.Array && n.Wanted.On.Has(Failed):
			news = append(news, Failed)
		default:
			news = append(news, Ended)
		}
	}
	if c.Since == n.Since && c.Begun == n.Begun && len(news) == 0 {
		return n
	}
	for _, e := range news {
		c.add(e, now)
	}
	return &c
}

// Overdue returns the notices of a job that has waited for too long. It is not told again before the job waits again.
func (n *Notices) Overdue(now int64) *Notices {
	c := *n
	c.Since = 0
	c.add(Waiting, now)
	return &c
}

// add adds a notice, if the job asks for it. It replaces an untold one about the same event, so that a URL that does not answer collects
// one of each at most.
func (n *Notices) add(e Event, now int64) {
	if !n.Wanted.On.Has(e) {
		return
	}
	n.Count++
	kept := slices.DeleteFunc(slices.Clone(n.Untold), func(o Notice) bool { return o.Event == e })
	n.Untold = append(kept, Notice{Number: n.Count, Event: e, At: now})
}

// Told returns the notices after a try to send one. over: it is not sent again. n itself: the try was about none that is there.
func (n *Notices) Told(number uint32, over bool, err string, now int64) *Notices {
	c := *n
	c.Untold = slices.DeleteFunc(slices.Clone(n.Untold), func(o Notice) bool { return o.Number == number })
	there, taken := len(c.Untold) < len(n.Untold), over && err == ""
	// One that was replaced may have been under way.
	replaced := number > 0 && len(n.Untold) > 0 && number < n.Untold[len(n.Untold)-1].Number
	if !there && !(taken && replaced) {
		return n
	}
	if !over {
		c.Untold = n.Untold
	}
	if len(c.Untold) == 0 {
		c.Untold = nil
	}
	if taken {
		c.ToldAt = now
	}
	c.Err = err
	return &c
}

// Wakes is when the job has waited for too long; 0: never, as it is.
func (n *Notices) Wakes() int64 {
	if n == nil || n.Since == 0 {
		return 0
	}
	return n.Since + n.Wanted.Wait
}

// Owes says whether there are notices that were not told.
func (n *Notices) Owes() bool { return n != nil && len(n.Untold) > 0 }

// Wrong says what does not hold; empty: nothing.
func (n *Notices) Wrong() string {
	if n.Wanted.URL == "" || n.Wanted.On == 0 {
		return "has notices, and no URL or no event to send"
	}
	last, seen := uint32(0), Set(0)
	for _, o := range n.Untold {
		if o.Number <= last || o.Number > n.Count || !n.Wanted.On.Has(o.Event) || seen.Has(o.Event) {
			return "has untold notices that are not in order, not counted, not asked for, or about the same event"
		}
		last, seen = o.Number, seen.With(o.Event)
	}
	return ""
}

// AppendFields adds the fields to the hash of a row.
func (n *Notices) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Text(n.Wanted.URL).Num(uint64(n.Wanted.On)).Int(n.Wanted.Wait).Int(n.Since).Flag(n.Begun)
	f = f.Num(uint64(n.Count)).Num(uint64(len(n.Untold)))
	for _, o := range n.Untold {
		f = f.Num(uint64(o.Number)).Num(uint64(o.Event)).Int(o.At)
	}
	return f.Int(n.ToldAt).Text(n.Err)
}
