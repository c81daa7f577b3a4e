package device

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestXids(t *testing.T) {
	require.True(t, slices.IsSortedFunc(xids, func(a, b Xid) int { return a.Code - b.Code }))
	require.Len(t, slices.CompactFunc(slices.Clone(xids), func(a, b Xid) bool { return a.Code == b.Code }), len(xids), "one is there twice")
	for _, critical := range []int{46, 48, 62, 64, 79, 95, 119, 120} {
		require.True(t, XidOf(critical).Critical, critical)
	}
	// Errors that a program can cause must not take a GPU out of service.
	for _, application := range []int{13, 31, 43, 45, 68, 109, 7777} {
		require.False(t, XidOf(application).Critical, application)
	}
	require.Equal(t, "Xid 79: GPU has fallen off the bus", XidOf(79).String())
	require.Equal(t, "Xid 7777: see NVIDIA's Xid catalog", XidOf(7777).String())
}
