package status

import (
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
)

// CodeName returns the gRPC name of a code, such as FAILED_PRECONDITION for FailedPrecondition.
func CodeName(c codes.Code) string {
	var b strings.Builder
	name := c.String()
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
