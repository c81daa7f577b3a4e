package access

import (
	"fmt"
	"iter"

	"github.com/cespare/xxhash/v2"

	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/kernel"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	recordAudit = 110

	// DefaultKeepAudit bounds the records of each of the four kinds, unless Configure says otherwise: about jobs, about calls
	// that were denied, about sessions, and about everything else. They have a bound each, so that however many jobs, denials or
	// sign-ins come, they do not push out the record of an operator who took a node out of service.
	DefaultKeepAudit = 100_000
	// MaxAuditText bounds each text of a record, in bytes; what is longer is cut.
	MaxAuditText = 256
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
	// Tenant, User and Token are those of the caller; Token 0: another way.
	Tenant string      `cbor:"5,keyasint,omitempty"`
	User   string      `cbor:"6,keyasint,omitempty"`
	Token  ident.Token `cbor:"7,keyasint,omitempty"`
	Action AuditAction `cbor:"8,keyasint,omitempty"`
	// Job or Object names the target of the action.
	Job    ident.Job `cbor:"9,keyasint,omitempty"`
	Object string    `cbor:"10,keyasint,omitempty"`
	// kernel.Code is that of the refusal; 0: it was done.
	Code    kernel.Code   `cbor:"11,keyasint,omitempty"`
	Message reason.Reason `cbor:"12,keyasint,omitempty"`
	Request string        `cbor:"13,keyasint,omitempty"`
}

func (r *AuditRecord) AppendFields(f kernel.Fields) kernel.Fields {
	f = f.Num(r.Seq).Num(r.Index).Num(uint64(r.Pos)<<32 | uint64(r.Action)<<8 | uint64(r.Code)).Int(r.Time)
	f = f.Text(r.Tenant).Text(r.User).Num(uint64(r.Token)).Num(uint64(r.Job)).Text(r.Object)
	return f.Text(string(r.Message)).Text(r.Request)
}

// auditLogs has one log per kind.
type auditLogs struct {
	logs [kinds]auditLog
	// keep bounds the records of each log; 0: DefaultKeepAudit.
	keep    int
	scratch kernel.Fields
}

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

// Freeze implements kernel.Part.
func (t *auditLogs) Freeze(*kernel.State) kernel.Part { return &auditLogs{logs: t.logs, keep: t.keep} }

func auditOf(s *kernel.State) *auditLogs { return kernel.PartOf[*auditLogs](s) }

// Audit is all that the audit log is to the state.
func Audit() kernel.Domain {
	return kernel.Domain{
		Name: "audit",
		Open: func(*kernel.State) kernel.Part { return &auditLogs{} },
		Records: []kernel.RecordDef{{
			Number: recordAudit,
			Name:   "audit record",
			Blank:  func() kernel.Hashed { return &AuditRecord{} },
			Save: func(s *kernel.State, emit func(any) error) error {
				t := auditOf(s)
				for k := range t.logs {
					l := &t.logs[k]
					for n := range l.len() {
						if err := emit(&l.at(n).AuditRecord); err != nil {
							return err
						}
					}
				}
				return nil
			},
			Load: func(s *kernel.State, data []byte) error {
				var r AuditRecord
				if err := kernel.Unmarshal(data, &r); err != nil {
					return err
				}
				t := auditOf(s)
				if l := t.of(r.Action); l.len() > 0 && r.Seq != l.next() {
					return fmt.Errorf("record %d follows %d", r.Seq, l.next()-1)
				}
				r.Tenant, r.User = s.Intern(r.Tenant), s.Intern(r.User)
				t.put(&r)
				return nil
			},
			Sum: func(s *kernel.State) uint64 {
				t := auditOf(s)
				var sum uint64
				for k := range t.logs {
					sum += t.logs[k].sum
				}
				return sum
			},
			Recount: func(s *kernel.State) uint64 {
				var sum uint64
				var f kernel.Fields
				for r := range (View{audit: auditOf(s)}).AuditRecords(0) {
					f = r.AppendFields(f[:0].Num(recordAudit))
					sum += xxhash.Sum64(f)
				}
				return sum
			},
		}},
		Commands: []kernel.CommandDef{kernel.Define("RecordDenials", recordDenials, nil)},
		Check:    checkAudit,
	}
}

// KeepAudit bounds the records of each log; 0: DefaultKeepAudit. The oldest beyond it are gone at once. The domain that is
// configured with the figure keeps it in the state, and says it again when a snapshot is restored.
func KeepAudit(s *kernel.State, keep int) {
	t := auditOf(s)
	t.keep = keep
	for k := range t.logs {
		t.logs[k].trim(t.bound())
	}
}

func (t *auditLogs) bound() int {
	if t.keep == 0 {
		return DefaultKeepAudit
	}
	return t.keep
}

func (t *auditLogs) of(a AuditAction) *auditLog { return &t.logs[a.kind()] }

func (t *auditLogs) put(r *AuditRecord) {
	t.scratch = r.AppendFields(t.scratch[:0].Num(recordAudit))
	t.of(r.Action).append(auditEntry{*r, xxhash.Sum64(t.scratch)}, t.bound())
}

// Record writes down one thing that somebody did, or was refused. A nil actor means that the cluster acted by itself: that
// is not audited.
func Record(tx *kernel.Tx, who *Actor, r AuditRecord, refused *kernel.Refusal) {
	if who == nil {
		return
	}
	// Those who run the cluster are of no tenant.
	if who.Tenant != "" || who.User != "" {
		r.Tenant, r.User = who.Tenant, who.User
	}
	r.Tenant, r.User = tx.Intern(auditText(r.Tenant)), tx.Intern(auditText(r.User))
	r.Token, r.Request = who.Token, auditText(who.Request)
	if refused != nil {
		r.Code, r.Message = refused.Code, refused.Reason
	}
	r.Object, r.Message = auditText(r.Object), r.Message.Clip(MaxAuditText)
	t := auditOf(tx.State)
	r.Seq, r.Index, r.Pos, r.Time = t.of(r.Action).next(), tx.Index(), tx.NextAudit(), tx.Now()
	t.put(&r)
}

// auditText cuts a text to its bound, between two letters.
func auditText(s string) string { return reason.Cut(s, MaxAuditText) }

// AuditRecords iterates the records newest first: all of them, or those of an action's kind.
func (v View) AuditRecords(of AuditAction) iter.Seq[*AuditRecord] {
	return func(yield func(*AuditRecord) bool) {
		var left [kinds]int
		for k := range left {
			if of == 0 || of.kind() == Kind(k) {
				left[k] = v.audit.logs[k].len()
			}
		}
		for {
			var newest *auditEntry
			from := 0
			for k, n := range left {
				if n == 0 {
					continue
				}
				if e := v.audit.logs[k].at(n - 1); newest == nil || e.after(newest) {
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
func (v View) AuditDroppedBefore(of AuditAction) uint64 {
	before := uint64(0)
	for k := range v.audit.logs {
		l := &v.audit.logs[k]
		if of != 0 && l != v.audit.of(of) || l.len() == 0 {
			continue
		}
		if oldest := l.at(0); oldest.Seq > 1 {
			before = max(before, oldest.Index)
		}
	}
	return before
}

func checkAudit(s *kernel.State, report kernel.Report) {
	t := auditOf(s)
	for k := range t.logs {
		l := &t.logs[k]
		if keep := t.bound(); l.len() > keep {
			report("%d records where %d are kept", l.len(), keep)
		}
		for n := range l.len() {
			r := l.at(n)
			if err := r.Message.Valid(); err != nil {
				report("the message of %s at index %d: %v", r.Action, r.Index, err)
			}
			switch {
			case t.of(r.Action) != l:
				report("%s at index %d is among the wrong records", r.Action, r.Index)
			case r.Index > s.Index() || r.Time > s.Now():
				report("%s is of index %d, after %d", r.Action, r.Index, s.Index())
			case n > 0 && (r.Seq != l.at(n-1).Seq+1 || !r.after(l.at(n-1)) || r.Time < l.at(n-1).Time):
				report("record %d at %d.%d follows record %d at %d.%d", r.Seq, r.Index, r.Pos, l.at(n-1).Seq, l.at(n-1).Index, l.at(n-1).Pos)
			}
		}
	}
}
