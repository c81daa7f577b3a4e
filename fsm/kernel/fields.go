package kernel

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Fields is the stream of a row's fields that its hash is taken of. It is injective (fixed widths, lengths before
// text), and made by hand because it is made for every change: reflection would cost more than all the rest of it.
// hash_test.go in package fsm holds that every field of every row is in it.
type Fields []byte

// Hashed is a row that writes every field of it, for the hash.
type Hashed interface {
	AppendFields(f Fields) Fields
}

// Num adds a number.
func (f Fields) Num(v uint64) Fields { return binary.LittleEndian.AppendUint64(f, v) }

// Int adds a signed number.
func (f Fields) Int(v int64) Fields { return f.Num(uint64(v)) }

// Text adds a text with its length.
func (f Fields) Text(s string) Fields { return append(f.Num(uint64(len(s))), s...) }

// Bytes adds bytes with their length.
func (f Fields) Bytes(b []byte) Fields { return append(f.Num(uint64(len(b))), b...) }

// Flag adds a bool.
func (f Fields) Flag(b bool) Fields {
	if b {
		return append(f, 1)
	}
	return append(f, 0)
}

// Optional adds a number that may be absent.
func (f Fields) Optional(v *int32) Fields {
	if v == nil {
		return append(f, 0)
	}
	return append(f, 1).Int(int64(*v))
}

// Labels adds a map as the sum of the hashes of its pairs, which no order can change.
func (f Fields) Labels(m map[string]string) Fields {
	var sum uint64
	end := len(f)
	for k, v := range m { // order-free: a sum
		f = f[:end].Text(k).Text(v)
		sum += xxhash.Sum64(f[end:])
	}
	return f[:end].Num(uint64(len(m))).Num(sum)
}
