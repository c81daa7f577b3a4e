package fsm

import (
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

const (
	recordAudit = 110

	// DefaultKeepAudit bounds the records of each of the three kinds, unless Configure says otherwise: about jobs, about
	// calls that were denied, and about everything else. They have a bound each, so that however many jobs or denials come,
	// they do not wash away who took a node out of service.
	DefaultKeepAudit = 100_000
	// maxAuditText bounds each text of a record, in bytes; what is longer is cut.
	maxAuditText = 256
	// auditSegment is how many records are kept together.
	auditSegment = 512
)

// AuditRecord says who did what to which object. It is written when the command is applied that did it, or was refused.
type AuditRecord struct {
	// Seq counts the records of its kind from 1.
	Seq   uint64 `cbor:"1,keyasint,omitempty"`
	Index uint64 `cbor:"2,keyasint,omitempty"`
	// Pos is its place among the records of the same index.
	Pos  uint32 `cbor:"3,keyasint,omitempty"`
	Time int64  `cbor:"4,keyasint,omitempty"`
	// Tenant, User and Token are those of the caller; Token 0: he came another way.
	Tenant string      `cbor:"5,keyasint,omitempty"`
	User   string      `cbor:"6,keyasint,omitempty"`
	Token  TokenID     `cbor:"7,keyasint,omitempty"`
	Action AuditAction `cbor:"8,keyasint,omitempty"`
	// Job or Object is what it was done to.
	Job    JobID  `cbor:"9,keyasint,omitempty"`
	Object string `cbor:"10,keyasint,omitempty"`
	// Code is that of the refusal; 0: it was done.
	Code    Code   `cbor:"11,keyasint,omitempty"`
	Message string `cbor:"12,keyasint,omitempty"`
	Request string `cbor:"13,keyasint,omitempty"`
}

func (r *AuditRecord) appendFields(f fields) fields {
	f = f.num(r.Seq).num(r.Index).num(uint64(r.Pos)<<32 | uint64(r.Action)<<8 | uint64(r.Code)).int(r.Time)
	f = f.text(r.Tenant).text(r.User).num(uint64(r.Token)).num(uint64(r.Job)).text(r.Object)
	return f.text(r.Message).text(r.Request)
}

// auditTables has one log per kind.
type auditTables struct {
	logs    [auditKinds]auditLog
	scratch fields
}

// auditKind says in which of the logs an action is kept.
type auditKind uint8

const (
	auditJobs auditKind = iota
	auditOthers
	auditDenials
	auditKinds
)

// auditLog is a queue of records: new ones come at the end, old ones go at the front. Segments are filled once and never
// changed, so a frozen copy is a copy of this struct: what is appended later lies beyond its end.
type auditLog struct {
	segments []*[auditSegment]auditEntry
	// start and end count from the beginning of the first segment.
	start, end int
	sum        uint64
}

type auditEntry struct {
	AuditRecord
	hash uint64
}

func (l *auditLog) len() int { return l.end - l.start }

// at is the nth record, oldest first.
func (l *auditLog) at(n int) *auditEntry {
	n += l.start
	return &l.segments[n/auditSegment][n%auditSegment]
}

// append puts a record at the end, and lets go of the oldest beyond the bound.
func (l *auditLog) append(e auditEntry, keep int) {
	if l.end == len(l.segments)*auditSegment {
		l.segments = append(l.segments, new([auditSegment]auditEntry))
	}
	l.segments[l.end/auditSegment][l.end%auditSegment] = e
	l.end++
	l.sum += e.hash
	l.trim(keep)
}

// trim lets go of the oldest records beyond the bound.
func (l *auditLog) trim(keep int) {
	for l.len() > keep {
		l.sum -= l.at(0).hash
		if l.start++; l.start == auditSegment {
			l.segments = l.segments[1:]
			l.start, l.end = 0, l.end-auditSegment
		}
	}
}

// next is the number of the next record.
func (l *auditLog) next() uint64 {
	if l.len() == 0 {
		return 1
	}
	return l.at(l.len()-1).Seq + 1
}

var auditDomain = domain{
	name: "audit",
	records: []recordDef{{
		number: recordAudit,
		name:   "audit record",
		save: func(s *state, emit func(any) error) error {
			for k := range s.audit.logs {
				l := &s.audit.logs[k]
				for n := range l.len() {
					if err := emit(&l.at(n).AuditRecord); err != nil {
						return err
					}
				}
			}
			return nil
		},
		load: func(s *state, data []byte) error {
			var r AuditRecord
			if err := decMode.Unmarshal(data, &r); err != nil {
				return err
			}
			if l := s.audit.of(r.Action); l.len() > 0 && r.Seq != l.next() {
				return fmt.Errorf("record %d follows %d", r.Seq, l.next()-1)
			}
			r.Tenant, r.User = s.work.name(r.Tenant), s.work.name(r.User)
			s.audit.put(&r, s.meta.keepAudit())
			return nil
		},
		sum: func(s *state) uint64 {
			var sum uint64
			for k := range s.audit.logs {
				sum += s.audit.logs[k].sum
			}
			return sum
		},
		recount: func(s *state) uint64 {
			var sum uint64
			var f fields
			for r := range s.AuditRecords(AuditAction(0)) {
				f = r.appendFields(f[:0].num(recordAudit))
				sum += xxhash.Sum64(f)
			}
			return sum
		},
	}},
	commands: []commandDef{defineCommand[RecordDenials]("RecordDenials")},
	open:     func(*state) {},
	freeze:   func(s, from *state) { s.audit = auditTables{logs: from.audit.logs} },
	check:    checkAudit,
}

func (t *auditTables) of(a AuditAction) *auditLog { return &t.logs[a.kind()] }

func (t *auditTables) put(r *AuditRecord, keep int) {
	t.scratch = r.appendFields(t.scratch[:0].num(recordAudit))
	t.of(r.Action).append(auditEntry{*r, xxhash.Sum64(t.scratch)}, keep)
}

// record writes down one thing that somebody did, or was refused.
func (tx *tx) record(who *Actor, r AuditRecord, refused *Refusal) {
	w := tx.work
	// Those who run the cluster are of no tenant.
	if who.Tenant != "" || who.User != "" && tx.version >= 3 {
		r.Tenant, r.User = who.Tenant, who.User
	}
	r.Tenant, r.User = w.name(auditText(r.Tenant)), w.name(auditText(r.User))
	r.Token, r.Request = who.Token, auditText(who.Request)
	if refused != nil {
		r.Code, r.Message = refused.Code, refused.Message
	}
	r.Object, r.Message = auditText(r.Object), auditText(r.Message)
	r.Seq, r.Index, r.Pos, r.Time = tx.audit.of(r.Action).next(), tx.index, tx.audited, tx.now
	tx.audited++
	tx.audit.put(&r, tx.meta.keepAudit())
}

// auditText cuts a text to its bound, between two letters.
func auditText(s string) string {
	if len(s) <= maxAuditText {
		return s
	}
	end := maxAuditText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// AuditRecords iterates the records newest first: all of them, or those of an action's kind.
func (s *state) AuditRecords(of AuditAction) iter.Seq[*AuditRecord] {
	return func(yield func(*AuditRecord) bool) {
		var left [auditKinds]int
		for k := range left {
			if of == 0 || of.kind() == auditKind(k) {
				left[k] = s.audit.logs[k].len()
			}
		}
		for {
			var newest *auditEntry
			from := 0
			for k, n := range left {
				if n == 0 {
					continue
				}
				if e := s.audit.logs[k].at(n - 1); newest == nil || e.after(newest) {
					newest, from = e, k
				}
			}
			if newest == nil || !yield(&newest.AuditRecord) {
				return
			}
			left[from]--
		}
	}
}

func (e *auditEntry) after(o *auditEntry) bool {
	return e.Index > o.Index || e.Index == o.Index && e.Pos > o.Pos
}

// AuditDroppedBefore is the index before which records (all, or those of an action's kind) are missing; 0: none are.
func (s *state) AuditDroppedBefore(of AuditAction) uint64 {
	before := uint64(0)
	for k := range s.audit.logs {
		l := &s.audit.logs[k]
		if of != 0 && l != s.audit.of(of) || l.len() == 0 {
			continue
		}
		if oldest := l.at(0); oldest.Seq > 1 {
			before = max(before, oldest.Index)
		}
	}
	return before
}

func checkAudit(s *state, report func(string, ...any)) {
	for k := range s.audit.logs {
		l := &s.audit.logs[k]
		if keep := s.meta.keepAudit(); l.len() > keep {
			report("%d records where %d are kept", l.len(), keep)
		}
		for n := range l.len() {
			r := l.at(n)
			switch {
			case s.audit.of(r.Action) != l:
				report("%s at index %d is among the wrong records", r.Action, r.Index)
			case r.Index > s.meta.Index || r.Time > s.meta.Now:
				report("%s is of index %d, after %d", r.Action, r.Index, s.meta.Index)
			case n > 0 && (r.Seq != l.at(n-1).Seq+1 || !r.after(l.at(n-1)) || r.Time < l.at(n-1).Time):
				report("record %d at %d.%d follows record %d at %d.%d", r.Seq, r.Index, r.Pos, l.at(n-1).Seq, l.at(n-1).Index, l.at(n-1).Pos)
			}
		}
	}
}
