package jobverbs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mindcoordinator/mind/fsm/access"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/work"
	"github.com/mindcoordinator/mind/fsm/work/checkpoints"
	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// SubmitJobs has a wire form of its own instead of CBOR: every replica decodes every job, and reflection would cost
// more than all the rest of taking one in (BenchmarkDecodeSubmit). The form is
//
//	version  1 byte
//	actor    a flag whether there is one; tenant, user, token and request
//	count    uvarint
//	count x  the fields of NewJob in the order of AppendBody: text and bytes as uvarint length and contents, numbers as
//	         uvarint or (signed ones) varint, flags as one byte, labels as a count and sorted pairs, an array as a flag
//	         and its first and last element
//
// A field is added by a new version, which is written from the level on that has the field.
const submitVersion byte = 1

// minJobSize is the size of an empty job; a count that cannot be true is refused before memory is spent.
const minJobSize = 44

// parser reads fields one after the other. After the first that is not there, bad is set and all else is zero.
type parser struct {
	rest []byte
	bad  bool
}

// AppendBody implements kernel.BodyWriter.
func (c SubmitJobs) AppendBody(b []byte) []byte {
	b = append(b, submitVersion)
	a := c.Actor
	b = appendFlag(b, a != nil)
	if a == nil {
		a = &access.Actor{}
	}
	b = appendText(b, a.Tenant)
	b = appendText(b, a.User)
	b = binary.AppendUvarint(b, uint64(a.Token))
	b = appendText(b, a.Request)
	b = binary.AppendUvarint(b, uint64(len(c.Jobs)))
	for i := range c.Jobs {
		b = c.Jobs[i].append(b)
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFlag(b []byte, f bool) []byte {
	if f {
		return append(b, 1)
	}
	return append(b, 0)
}

func (n *NewJob) append(b []byte) []byte {
	b = appendText(b, n.Tenant)
	b = appendText(b, n.User)
	b = appendText(b, n.Name)
	b = appendText(b, n.Queue)
	b = append(b, n.Priority)
	b = appendText(b, n.Spec)
	s := &n.Shape
	for _, v := range [...]uint64{uint64(s.Nodes), uint64(s.GPUs), uint64(s.FractionMilli), uint64(s.GPUMemMB), uint64(s.CPUs), uint64(s.MemMB), uint64(s.Topology)} {
		b = binary.AppendUvarint(b, v)
	}
	b = appendText(b, s.GPUType)
	b = appendText(b, s.Selector)
	b = binary.AppendUvarint(b, uint64(len(n.Labels)))
	if len(n.Labels) > 0 {
		var few [16]string
		keys := few[:0]
		for k := range n.Labels { // order-free: sorted below
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b = appendText(b, k)
			b = appendText(b, n.Labels[k])
		}
	}
	b = binary.AppendUvarint(b, uint64(n.Retry.Max))
	b = append(b, byte(n.Retry.On))
	b = appendFlag(b, n.Preemptible)
	for _, v := range [...]int64{n.MaxRuntime, n.LostAfter, n.GiveUpAfter, n.Grace, n.NotBefore} {
		b = binary.AppendVarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Dependencies)))
	for _, d := range n.Dependencies {
		b = binary.AppendUvarint(b, uint64(d.Job))
		b = append(b, byte(d.When))
	}
	b = binary.AppendUvarint(b, uint64(n.ResumeFrom))
	b = appendText(b, n.Key)
	b = binary.LittleEndian.AppendUint64(b, n.Fingerprint)
	b = appendFlag(b, n.AutoKey)
	b = appendText(appendText(b, n.Credentials), n.Request)
	b = appendFlag(b, n.Retry.Never)
	r := &n.Retention
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Keep)), uint64(r.Best))
	b = binary.AppendUvarint(appendText(b, r.Metric), uint64(n.Scores))
	b = binary.AppendVarint(n.appendArray(b), n.Notice)
	b = binary.AppendUvarint(append(b, byte(s.Between)), uint64(s.Segment))
	return appendFlag(appendText(appendText(b, s.Level), s.Exclude), s.Loose)
}

// ParseBody implements kernel.BodyParser.
func (c *SubmitJobs) ParseBody(b []byte) error {
	if len(b) == 0 || b[0] != submitVersion {
		return fmt.Errorf("the jobs are not in the form of version %d", submitVersion)
	}
	p := parser{rest: b[1:]}
	given := p.flag()
	actor := &access.Actor{Tenant: p.text(), User: p.text(), Token: ident.Token(p.number()), Request: p.text()}
	if given {
		c.Actor = actor
	}
	n := p.count(minJobSize)
	c.Jobs = make([]NewJob, n)
	for i := range c.Jobs {
		c.Jobs[i].parse(&p)
	}
	if p.bad {
		return errors.New("the jobs are cut off, or one of their fields is out of bounds")
	}
	if len(p.rest) != 0 {
		return fmt.Errorf("%d bytes after the last job", len(p.rest))
	}
	return nil
}

func (n *NewJob) parse(p *parser) {
	n.Tenant, n.User, n.Name, n.Queue = p.text(), p.text(), p.text(), p.text()
	n.Priority = p.byte()
	n.Spec = p.bytes()
	s := &n.Shape
	s.Nodes, s.GPUs, s.FractionMilli = uint16(p.upTo(1<<16-1)), uint16(p.upTo(1<<16-1)), uint16(p.upTo(1<<16-1))
	s.GPUMemMB, s.CPUs, s.MemMB = uint32(p.upTo(1<<32-1)), uint32(p.upTo(1<<32-1)), uint32(p.upTo(1<<32-1))
	s.Topology = uint8(p.upTo(1<<8 - 1))
	s.GPUType, s.Selector = p.text(), p.text()
	if k := p.count(2); k > 0 {
		n.Labels = make(map[string]string, k)
		for range k {
			key := p.text()
			n.Labels[key] = p.text()
		}
	}
	n.Retry = work.RetryPolicy{Max: uint16(p.upTo(1<<16 - 1)), On: work.RetryCause(p.byte())}
	n.Preemptible = p.flag()
	n.MaxRuntime, n.LostAfter, n.GiveUpAfter = p.signed(), p.signed(), p.signed()
	n.Grace, n.NotBefore = p.signed(), p.signed()
	if k := p.count(2); k > 0 {
		n.Dependencies = make([]work.Dependency, k)
		for i := range n.Dependencies {
			n.Dependencies[i] = work.Dependency{Job: ident.Job(p.number()), When: work.Condition(p.byte())}
		}
	}
	n.ResumeFrom = ident.Checkpoint(p.number())
	n.Key = p.text()
	if raw := p.take(8); raw != nil {
		n.Fingerprint = binary.LittleEndian.Uint64(raw)
	}
	n.AutoKey = p.flag()
	n.Credentials, n.Request = p.bytes(), p.text()
	n.Retry.Never = p.flag()
	n.Retention = checkpoints.Retention{Keep: uint32(p.upTo(1<<32 - 1)), Best: uint32(p.upTo(1<<32 - 1)), Metric: p.text()}
	n.Scores = ident.Checkpoint(p.number())
	n.parseArray(p)
	n.Notice = p.signed()
	s.Between, s.Segment = domains.Between(p.byte()), uint16(p.upTo(1<<16-1))
	s.Level, s.Exclude, s.Loose = p.text(), p.text(), p.flag()
}

func (n *NewJob) appendArray(b []byte) []byte {
	if b = appendFlag(b, n.Array != nil); n.Array != nil {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(n.Array.Start)), uint64(n.Array.End))
	}
	return binary.AppendUvarint(b, uint64(n.MaxParallel))
}

func (n *NewJob) parseArray(p *parser) {
	if p.flag() {
		n.Array = &NewArray{Start: uint32(p.upTo(math.MaxUint32)), End: uint32(p.upTo(math.MaxUint32))}
	}
	n.MaxParallel = uint32(p.upTo(math.MaxUint32))
}

func (p *parser) fail() {
	p.bad = true
	p.rest = nil
}

func (p *parser) take(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.fail()
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) signed() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) upTo(limit uint64) uint64 {
	v := p.number()
	if v > limit {
		p.fail()
		return 0
	}
	return v
}

// count reads how many things follow that take at least size bytes each.
func (p *parser) count(size uint64) int {
	n := p.number()
	if n > uint64(len(p.rest))/size {
		p.fail()
		return 0
	}
	return int(n)
}

func (p *parser) text() string { return string(p.take(p.number())) }

// bytes returns a copy, so that a row does not hold on to its log entry.
func (p *parser) bytes() []byte {
	b := p.take(p.number())
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) flag() bool {
	b := p.byte()
	if b > 1 {
		p.fail()
	}
	return b == 1
}
