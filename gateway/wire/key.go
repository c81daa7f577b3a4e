package wire

import (
	"strings"

	"github.com/mindcoordinator/mind/api/status"
)

const KeyRule = `must be 1 to 255 printable ASCII characters and not begin with "` + status.AutoKeyPrefix + `"`

// CallersKey reports whether a caller may use this idempotency key.
func CallersKey(key string) bool {
	if key == "" || len(key) > 255 || strings.HasPrefix(key, status.AutoKeyPrefix) {
		return false
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}
