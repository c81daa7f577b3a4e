package kernel

import "strings"

const (
	// IDPositionBits is the share of an id that counts within one entry; the rest is the index of the entry.
	IDPositionBits = 16
	// MaxIDsPerEntry bounds the ids that one entry can mint; what would need more is refused.
	MaxIDsPerEntry = 1 << IDPositionBits
)

// crockford is Crockford's base32 in lower case: no i, l, o, u.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// FirstID is the lowest id that the entry of an index can mint.
func FirstID(index uint64) uint64 { return index << IDPositionBits }

// FormatID writes an id as users see it, such as "job_1k0g00".
func FormatID(prefix string, n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = crockford[n&31]
		n >>= 5
		if n == 0 {
			break
		}
	}
	return prefix + string(b[i:])
}

// ParseID reads what FormatID wrote, and nothing else: one id has one spelling.
func ParseID(prefix, s string) (uint64, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || digits == "" || len(digits) > 13 || digits[0] == '0' {
		return 0, false
	}
	var n uint64
	for i := range len(digits) {
		d := strings.IndexByte(crockford, digits[i])
		if d < 0 || n > (1<<64-1)>>5 {
			return 0, false
		}
		n = n<<5 | uint64(d)
	}
	return n, true
}
