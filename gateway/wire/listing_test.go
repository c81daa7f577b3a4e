package wire

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A misspelled status is refused: an empty list would look like an answer.
func TestListing_refusesUnknownStatuses(t *testing.T) {
	read := Listing(func() *v1.ListExecutionsRequest { return &v1.ListExecutionsRequest{} }, "failed", "canceled")
	got, faults := read(url.Values{"status": {"canceled"}, "limit": {"7"}, "core_id": {"x"}})
	require.Empty(t, faults)
	require.Equal(t, []any{"canceled", int32(7), "x"}, []any{got.GetStatus(), got.GetLimit(), got.GetCoreId()})
	_, faults = read(url.Values{"status": {"cancelled"}, "limit": {"501"}})
	require.Equal(t, []Fault{{"status", `must be one of failed, canceled, not "cancelled"`}, {"limit", `must be a whole number from 1 to 500, not "501"`}}, faults)
	_, faults = read(url.Values{})
	require.Empty(t, faults)
}
