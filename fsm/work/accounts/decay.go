package accounts

import (
	"math/big"
	"math/bits"
)

// one is 1 in the fixed point of factors: 63 bits after the point.
const one = uint64(1) << 63

const (
	// log2e is 1/ln 2 and ln2 its inverse, with 63 bits after the point.
	log2e = 0xB8AA3B295C17F0BC
	ln2   = 0x58B90BFBE8E7BCD5
)

// most bounds a sum: what would be more stays there.
const most = uint64(1) << 62

// powers has 2^-x for the x that have one byte of 32 bits after the point set, byte by byte.
var powers = makePowers()

func makePowers() (t [4][256]uint64) {
	// root is 2^-(2^-k), for k from 1 on: the square root of the one before it.
	var roots [32]uint64
	root, scale := new(big.Int).SetUint64(one>>1), new(big.Int).SetUint64(one)
	for k := range roots {
		root.Sqrt(root.Mul(root, scale))
		roots[k] = root.Uint64()
	}
	for i := range t {
		for b := range t[i] {
			t[i][b] = one
			for bit := range 8 {
				if b&(0x80>>bit) != 0 {
					t[i][b] = times(t[i][b], roots[8*i+bit])
				}
			}
		}
	}
	return t
}

// times is a product of which the second factor is at most 1, to the nearest.
func times(v, factor uint64) uint64 {
	hi, lo := bits.Mul64(v, factor)
	lo, carry := bits.Add64(lo, one>>1, 0)
	return (hi+carry)<<1 | lo>>63
}

// left is the part of 1 that is left after a time: 2^-(t/half).
func left(t, half uint64) uint64 {
	whole, rest := t/half, t%half
	if whole > 62 {
		return 0
	}
	x, _ := bits.Div64(rest>>1, rest<<63, half)
	f := powers[0][x>>55]
	f = times(f, powers[1][x>>47&0xff])
	f = times(f, powers[2][x>>39&0xff])
	f = times(f, powers[3][x>>31&0xff])
	// The rest of x is so small that 2^-x is 1 - x ln 2.
	f -= times(f, times(x&(1<<31-1), ln2))
	return f >> whole
}

// Life is the half-life of sums, in nanoseconds; at least a millisecond.
type Life int64

// half is a half-life in the unit of times, milliseconds.
func (l Life) half() uint64 { return uint64(max(int64(l)/1e6, 1)) }

// span is the limit of the sum when 1 is held for ever: the half-life, divided by ln 2.
func (l Life) span() uint64 {
	hi, lo := bits.Mul64(l.half(), log2e)
	return max(hi<<1|lo>>63, 1)
}

// after is a sum after a time in which so much was held; f is the part of 1 that is left.
func (l Life) after(sum, held, f uint64) uint64 {
	sum = times(sum, f)
	if held == 0 {
		return sum
	}
	// The time with 16 bits after the point, of which each moment counts as much as is left of it.
	hi, lo := bits.Mul64(l.span(), one-f)
	counted := hi<<17 | lo>>47
	hi, lo = bits.Mul64(held, counted)
	lo, carry := bits.Add64(lo, 1<<15, 0)
	if hi += carry; hi>>16 != 0 {
		return most
	}
	return min(sum+min(hi<<48|lo>>16, most), most)
}

// rescaled is the sum with another half-life that has the mean which a sum has with this one.
func (l Life) rescaled(sum uint64, to Life) uint64 {
	hi, lo := bits.Mul64(sum, to.span())
	if hi >= l.span() {
		return most
	}
	q, _ := bits.Div64(hi, lo, l.span())
	return min(q, most)
}

// mean is how much was held on average for the sum to come to this, with 20 bits after the point.
func (l Life) mean(sum uint64) uint64 {
	span := l.span()
	hi, lo := sum>>44, sum<<20
	if hi >= span {
		return most
	}
	q, _ := bits.Div64(hi, lo, span)
	return min(q, most)
}
