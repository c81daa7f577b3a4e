// Package compact reads and writes the fields of commands that have a wire form of their own: text and bytes as uvarint length and
// contents, numbers as uvarint or varint, flags as one byte.
package compact

import (
	"encoding/binary"
	"slices"
)

// AppendText adds text or bytes.
func AppendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendFlag adds a flag.
func AppendFlag(b []byte, f bool) []byte {
	if f {
		return append(b, 1)
	}
	return append(b, 0)
}

// Parser reads fields one after the other. After the first that is not there or out of bounds, all else is zero.
type Parser struct {
	rest []byte
	bad  bool
}

// ParserOf reads from the beginning of some bytes.
func ParserOf(b []byte) Parser { return Parser{rest: b} }

// Bad says whether a field was not there, or out of bounds.
func (p *Parser) Bad() bool { return p.bad }

// Left is how many bytes were not read.
func (p *Parser) Left() int { return len(p.rest) }

func (p *Parser) fail() {
	p.bad = true
	p.rest = nil
}

// Take reads so many bytes. They are part of what is parsed.
func (p *Parser) Take(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.fail()
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

// Number reads a number that is not less than 0.
func (p *Parser) Number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// Signed reads any number.
func (p *Parser) Signed() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

// UpTo reads a number that is at most the limit.
func (p *Parser) UpTo(limit uint64) uint64 {
	v := p.Number()
	if v > limit {
		p.fail()
		return 0
	}
	return v
}

// Count reads how many things follow that take at least size bytes each.
func (p *Parser) Count(size uint64) int {
	n := p.Number()
	if n > uint64(len(p.rest))/size {
		p.fail()
		return 0
	}
	return int(n)
}

// Text reads text.
func (p *Parser) Text() string { return string(p.Take(p.Number())) }

// Bytes reads bytes. It returns a copy, so that a row does not hold on to its log entry.
func (p *Parser) Bytes() []byte {
	b := p.Take(p.Number())
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}

// Byte reads one byte.
func (p *Parser) Byte() byte {
	if b := p.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Flag reads a flag.
func (p *Parser) Flag() bool {
	b := p.Byte()
	if b > 1 {
		p.fail()
	}
	return b == 1
}
