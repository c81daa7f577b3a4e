package once

import (
	"github.com/mindcoordinator/mind/fsm/kernel"
)

const record = 160

const (
	// Lifetime is how long the answer to a caller's own key is remembered, in nanoseconds of log time; MintedLifetime is
	// the same for a key that a gateway made, which repeats it for less than that.
	Lifetime       = 24 * 60 * 60 * int64(1e9)
	MintedLifetime = 3 * 60 * int64(1e9)
	// MaxResult bounds an encoded result, MaxAnswers and MaxBytes bound all of them together.
	MaxResult  = 64 << 10
	MaxAnswers = 50_000
	MaxBytes   = 64 << 20
	// Separator is between the key of a call and the number of the write in it, if that is not the first.
	Separator = "\x00"
)

// Answer is the answer to a write.
type Answer struct {
	Tenant      string `cbor:"1,keyasint,omitempty"`
	User        string `cbor:"2,keyasint,omitempty"`
	Key         string `cbor:"3,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"4,keyasint,omitempty"`
	Result      []byte `cbor:"5,keyasint,omitempty"`
	ExpiresAt   int64  `cbor:"6,keyasint,omitempty"`
	// Command is the number of the command that was applied.
	Command uint16 `cbor:"7,keyasint,omitempty"`
}

// AppendFields implements kernel.Row.
func (a *Answer) AppendFields(f kernel.Fields) kernel.Fields {
	return f.Text(a.Tenant).Text(a.User).Text(a.Key).Num(a.Fingerprint).Text(string(a.Result)).Int(a.ExpiresAt).Num(uint64(a.Command))
}

type name struct{ tenant, user, key string }

func (a *Answer) name() name { return name{a.Tenant, a.User, a.Key} }

// place orders answers by when they expire.
type place struct {
	at int64
	name
}

func (p place) before(q place) bool {
	switch {
	case p.at != q.at:
		return p.at < q.at
	case p.key != q.key:
		return p.key < q.key
	case p.user != q.user:
		return p.user < q.user
	}
	return p.tenant < q.tenant
}

// Memory is the part of the state that has the answers.
type Memory struct {
	rows  kernel.Table[place, *Answer]
	bytes int
	// named finds an answer by its key. Only the applying goroutine does, so a frozen copy has none. It is looked into,
	// and never ranged over.
	named map[name]*Answer
}

// Of returns the memory of a state.
func Of(s *kernel.State) *Memory { return kernel.PartOf[*Memory](s) }

// Freeze implements kernel.Part.
func (m *Memory) Freeze(*kernel.State) kernel.Part {
	return &Memory{rows: m.rows.Freeze(), bytes: m.bytes}
}

func (m *Memory) put(a *Answer) {
	m.rows.Put(place{a.ExpiresAt, a.name()}, a)
	m.named[a.name()] = a
	m.bytes += len(a.Result)
}

func (m *Memory) drop(at place, a *Answer) {
	m.rows.Delete(at)
	delete(m.named, a.name())
	m.bytes -= len(a.Result)
}

// View reads the answers of a frozen state.
type View struct{ memory *Memory }

// ViewOf returns the answers of a view.
func ViewOf(v *kernel.View) View { return View{Of(v.State())} }

// Answered reports whether the answer to a request with a key is remembered. It reads all answers.
func (v View) Answered(tenant, user, key string, fingerprint uint64) bool {
	for a := range v.memory.rows.Rows() {
		if a.Key == key && a.User == user && a.Tenant == tenant {
			return a.Fingerprint == fingerprint
		}
	}
	return false
}

// AnswerCount returns the number of answers, and AnswerBytes the length of their results together.
func (v View) AnswerCount() int { return v.memory.rows.Len() }
func (v View) AnswerBytes() int { return v.memory.bytes }

// perWrite bounds the answers that one write makes room for.
const perWrite = 64

// expire removes answers whose time is over.
func (m *Memory) expire(now int64) {
	for range perWrite {
		at, a, ok := m.rows.First()
		if !ok || at.at > now {
			return
		}
		m.drop(at, a)
	}
}

// bound removes the answers that expire first, as long as there are too many.
func (m *Memory) bound() {
	for m.rows.Len() > MaxAnswers || m.bytes > MaxBytes {
		at, a, _ := m.rows.First()
		m.drop(at, a)
	}
}

// Domain is all that remembered answers are to the state.
func Domain() kernel.Domain {
	return kernel.Domain{
		Name: "once",
		Open: func(*kernel.State) kernel.Part {
			return &Memory{rows: kernel.NewTable[place, *Answer](record, place.before), named: map[name]*Answer{}}
		},
		Commands: []kernel.CommandDef{kernel.Define("Do", do, nil)},
		Records: []kernel.RecordDef{
			kernel.Rows(record, "answer", func(s *kernel.State) *kernel.Table[place, *Answer] { return &Of(s).rows },
				func(s *kernel.State, a *Answer) error {
					a.Tenant, a.User = s.Intern(a.Tenant), s.Intern(a.User)
					Of(s).put(a)
					return nil
				}),
		},
		Due: func(s *kernel.State) (int64, bool) {
			at, _, ok := Of(s).rows.First()
			return at.at, ok
		},
		Tick: func(tx *kernel.Tx) bool {
			m := Of(tx.State)
			m.expire(tx.Now())
			at, _, ok := m.rows.First()
			return ok && at.at <= tx.Now()
		},
		Check: func(s *kernel.State, report kernel.Report) { Of(s).check(report) },
	}
}

func (m *Memory) check(report kernel.Report) {
	bytes, seen := 0, map[name]bool{}
	for a := range m.rows.Rows() {
		bytes += len(a.Result)
		if seen[a.name()] {
			report("I25: the answer to the key %q of %s/%s is remembered twice", a.Key, a.Tenant, a.User)
		}
		seen[a.name()] = true
	}
	if bytes != m.bytes || bytes > MaxBytes || m.rows.Len() > MaxAnswers {
		report("I25: %d answers of %d bytes are remembered, and %d are counted", m.rows.Len(), bytes, m.bytes)
	}
}
