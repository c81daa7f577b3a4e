package credentials

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/denials"
)

// Of equal events, the first one in each period counts, however many there are; and of all kinds together only some do.
func TestSeldom(t *testing.T) {
	var s seldom
	now, kind := time.Now(), denials.Denial{Reason: "expired", Address: "10.0.0.1"}
	require.True(t, s.first(kind, now, time.Minute))
	require.False(t, s.first(kind, now.Add(time.Minute-1), time.Minute))
	require.True(t, s.first(kind, now.Add(time.Minute), time.Minute))
	firsts := 0
	for i := range 1000 {
		kind.Address = fmt.Sprint(i)
		if s.first(kind, now.Add(time.Minute), time.Minute) {
			firsts++
		}
	}
	require.LessOrEqual(t, firsts, denials.MaxOfTenant+1)
}
