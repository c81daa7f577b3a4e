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
	"github.com/mindcoordinator/mind/fsm/work/compact"
	"github.com/mindcoordinator/mind/fsm/work/domains"
	"github.com/mindcoordinator/mind/fsm/work/notices"
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
// A field is added by a new version, which is written from the level on that has the field. That with notices is written only where a
// job has some.
const (
	submitVersion byte = 1
	submitTold    byte = 2
)

// minJobSize is the size of an empty job; a count that cannot be true is refused before memory is spent.
const minJobSize = 44

// AppendBody implements kernel.BodyWriter.
func (c SubmitJobs) AppendBody(b []byte) []byte {
	version := submitVersion
	if c.told() {
		version = submitTold
	}
	b = append(b, version)
	a := c.Actor
	b = compact.AppendFlag(b, a != nil)
	if a == nil {
		a = &access.Actor{}
	}
	b = compact.AppendText(b, a.Tenant)
	b = compact.AppendText(b, a.User)
	b = binary.AppendUvarint(b, uint64(a.Token))
	b = compact.AppendText(b, a.Request)
	b = binary.AppendUvarint(b, uint64(len(c.Jobs)))
	for i := range c.Jobs {
		b = c.Jobs[i].append(b)
		if version == submitTold {
			b = c.Jobs[i].appendNotices(b)
		}
	}
	return b
}

func (n *NewJob) append(b []byte) []byte {
	b = compact.AppendText(b, n.Tenant)
	b = compact.AppendText(b, n.User)
	b = compact.AppendText(b, n.Name)
	b = compact.AppendText(b, n.Queue)
	b = append(b, n.Priority)
	b = compact.AppendText(b, n.Spec)
	s := &n.Shape
	for _, v := range [...]uint64{uint64(s.Nodes), uint64(s.GPUs), uint64(s.FractionMilli), uint64(s.GPUMemMB), uint64(s.CPUs), uint64(s.MemMB), uint64(s.Topology)} {
		b = binary.AppendUvarint(b, v)
	}
	b = compact.AppendText(b, s.GPUType)
	b = compact.AppendText(b, s.Selector)
	b = binary.AppendUvarint(b, uint64(len(n.Labels)))
	if len(n.Labels) > 0 {
		var few [16]string
		keys := few[:0]
		for k := range n.Labels { // order-free: sorted below
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b = compact.AppendText(b, k)
			b = compact.AppendText(b, n.Labels[k])
		}
	}
	b = binary.AppendUvarint(b, uint64(n.Retry.Max))
	b = append(b, byte(n.Retry.On))
	b = compact.AppendFlag(b, n.Preemptible)
	for _, v := range [...]int64{n.MaxRuntime, n.LostAfter, n.GiveUpAfter, n.Grace, n.NotBefore} {
		b = binary.AppendVarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Dependencies)))
	for _, d := range n.Dependencies {
		b = binary.AppendUvarint(b, uint64(d.Job))
		b = append(b, byte(d.When))
	}
	b = binary.AppendUvarint(b, uint64(n.ResumeFrom))
	b = compact.AppendText(b, n.Key)
	b = binary.LittleEndian.AppendUint64(b, n.Fingerprint)
	b = compact.AppendFlag(b, n.AutoKey)
	b = compact.AppendText(compact.AppendText(b, n.Credentials), n.Request)
	b = compact.AppendFlag(b, n.Retry.Never)
	r := &n.Retention
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Keep)), uint64(r.Best))
	b = binary.AppendUvarint(compact.AppendText(b, r.Metric), uint64(n.Scores))
	b = binary.AppendVarint(n.appendArray(b), n.Notice)
	b = binary.AppendUvarint(append(b, byte(s.Between)), uint64(s.Segment))
	return compact.AppendFlag(compact.AppendText(compact.AppendText(b, s.Level), s.Exclude), s.Loose)
}

// ParseBody implements kernel.BodyParser.
func (c *SubmitJobs) ParseBody(b []byte) error {
	if len(b) == 0 || b[0] != submitVersion && b[0] != submitTold {
		return fmt.Errorf("the jobs are not in the form of version %d or %d", submitVersion, submitTold)
	}
	p := compact.ParserOf(b[1:])
	given := p.Flag()
	actor := &access.Actor{Tenant: p.Text(), User: p.Text(), Token: ident.Token(p.Number()), Request: p.Text()}
	if given {
		c.Actor = actor
	}
	n := p.Count(minJobSize)
	c.Jobs = make([]NewJob, n)
	for i := range c.Jobs {
		c.Jobs[i].parse(&p)
		if b[0] == submitTold {
			c.Jobs[i].parseNotices(&p)
		}
	}
	if p.Bad() {
		return errors.New("the jobs are cut off, or one of their fields is out of bounds")
	}
	if p.Left() != 0 {
		return fmt.Errorf("%d bytes after the last job", p.Left())
	}
	return nil
}

func (n *NewJob) parse(p *compact.Parser) {
	n.Tenant, n.User, n.Name, n.Queue = p.Text(), p.Text(), p.Text(), p.Text()
	n.Priority = p.Byte()
	n.Spec = p.Bytes()
	s := &n.Shape
	s.Nodes, s.GPUs, s.FractionMilli = uint16(p.UpTo(1<<16-1)), uint16(p.UpTo(1<<16-1)), uint16(p.UpTo(1<<16-1))
	s.GPUMemMB, s.CPUs, s.MemMB = uint32(p.UpTo(1<<32-1)), uint32(p.UpTo(1<<32-1)), uint32(p.UpTo(1<<32-1))
	s.Topology = uint8(p.UpTo(1<<8 - 1))
	s.GPUType, s.Selector = p.Text(), p.Text()
	if k := p.Count(2); k > 0 {
		n.Labels = make(map[string]string, k)
		for range k {
			key := p.Text()
			n.Labels[key] = p.Text()
		}
	}
	n.Retry = work.RetryPolicy{Max: uint16(p.UpTo(1<<16 - 1)), On: work.RetryCause(p.Byte())}
	n.Preemptible = p.Flag()
	n.MaxRuntime, n.LostAfter, n.GiveUpAfter = p.Signed(), p.Signed(), p.Signed()
	n.Grace, n.NotBefore = p.Signed(), p.Signed()
	if k := p.Count(2); k > 0 {
		n.Dependencies = make([]work.Dependency, k)
		for i := range n.Dependencies {
			n.Dependencies[i] = work.Dependency{Job: ident.Job(p.Number()), When: work.Condition(p.Byte())}
		}
	}
	n.ResumeFrom = ident.Checkpoint(p.Number())
	n.Key = p.Text()
	if raw := p.Take(8); raw != nil {
		n.Fingerprint = binary.LittleEndian.Uint64(raw)
	}
	n.AutoKey = p.Flag()
	n.Credentials, n.Request = p.Bytes(), p.Text()
	n.Retry.Never = p.Flag()
	n.Retention = checkpoints.Retention{Keep: uint32(p.UpTo(1<<32 - 1)), Best: uint32(p.UpTo(1<<32 - 1)), Metric: p.Text()}
	n.Scores = ident.Checkpoint(p.Number())
	n.parseArray(p)
	n.Notice = p.Signed()
	s.Between, s.Segment = domains.Between(p.Byte()), uint16(p.UpTo(1<<16-1))
	s.Level, s.Exclude, s.Loose = p.Text(), p.Text(), p.Flag()
}

func (n *NewJob) appendNotices(b []byte) []byte {
	if b = compact.AppendFlag(b, n.Notices != nil); n.Notices != nil {
		b = binary.AppendVarint(append(compact.AppendText(b, n.Notices.URL), byte(n.Notices.On)), n.Notices.Wait)
	}
	return b
}

func (n *NewJob) parseNotices(p *compact.Parser) {
	if p.Flag() {
		n.Notices = &notices.Wanted{URL: p.Text(), On: notices.Set(p.Byte()), Wait: p.Signed()}
	}
}

func (n *NewJob) appendArray(b []byte) []byte {
	if b = compact.AppendFlag(b, n.Array != nil); n.Array != nil {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(n.Array.Start)), uint64(n.Array.End))
	}
	return binary.AppendUvarint(b, uint64(n.MaxParallel))
}

func (n *NewJob) parseArray(p *compact.Parser) {
	if p.Flag() {
		n.Array = &NewArray{Start: uint32(p.UpTo(math.MaxUint32)), End: uint32(p.UpTo(math.MaxUint32))}
	}
	n.MaxParallel = uint32(p.UpTo(math.MaxUint32))
}
