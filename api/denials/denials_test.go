package denials

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTally_addsUpWhatIsEqual(t *testing.T) {
	var tally Tally
	require.Empty(t, tally.Take())
	ann := Denial{Tenant: "acme", User: "ann", Token: "tok_1", Outcome: "PERMISSION_DENIED", Reason: "AUTHZ_PERMISSION_DENIED", What: "PUT /queues/{name}", Address: "10.0.0.1"}
	stranger := Denial{Outcome: "UNAUTHENTICATED", Reason: "AUTH_TOKEN_INVALID", Address: "10.0.0.2"}
	require.True(t, tally.Note(stranger, "req_0", noon))
	for i := range 3 {
		require.Equal(t, i == 0, tally.Note(ann, fmt.Sprintf("req_%d", i+1), noon.Add(time.Duration(i)*time.Second)))
	}
	got := tally.Take()
	require.Len(t, got, 2)
	require.EqualValues(t, 3, got[0].GetCount())
	require.Equal(t, "acme ann tok_1 PERMISSION_DENIED AUTHZ_PERMISSION_DENIED PUT /queues/{name} 10.0.0.1 req_1", strings.Join([]string{
		got[0].GetTenantId(), got[0].GetUserId(), got[0].GetTokenId(), got[0].GetOutcome(), got[0].GetReason(), got[0].GetObject(), got[0].GetAddress(), got[0].GetRequestId(),
	}, " "))
	require.Equal(t, 2*time.Second, got[0].GetLastAt().AsTime().Sub(got[0].GetFirstAt().AsTime()))
	require.EqualValues(t, 1, got[1].GetCount())
	require.Empty(t, got[1].GetTenantId())
	require.True(t, tally.Note(ann, "", noon), "a new window begins")
	tally.Note(Denial{Tenant: strings.Repeat("ä", 999) + "\xff", Reason: "\xff"}, "\xfe", noon)
	_, err := proto.Marshal(&v1.RecordDenialsRequest{Denials: tally.Take()})
	require.NoError(t, err, "any name of an unauthenticated caller can be sent")
}

// A tally of any number of denials is bounded and counts all of them, and the flood of one tenant does not hide the
// single denial of another.
func TestTally_aFloodIsBounded(t *testing.T) {
	var tally Tally
	const flood = 100_000
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range flood / 4 {
				tally.Note(Denial{Outcome: "UNAUTHENTICATED", Reason: "AUTH_TOKEN_INVALID", Address: fmt.Sprintf("10.%d.%d.%d", worker, i>>8, i&255)}, strings.Repeat("r", 10_000), noon)
			}
		})
	}
	all.Wait()
	for i := range 1000 {
		tally.Note(Denial{Tenant: "loud", User: fmt.Sprint(i), Outcome: "PERMISSION_DENIED", Reason: "R"}, "", noon)
	}
	quiet := Denial{Tenant: "quiet", User: "ann", Outcome: "PERMISSION_DENIED", Reason: "R"}
	require.True(t, tally.Note(quiet, "", noon))
	got := tally.Take()
	require.LessOrEqual(t, len(got), MaxTold)
	require.LessOrEqual(t, len(got), 2*(MaxOfTenant+1)+1)
	sums, seen := map[string]int64{}, 0
	for _, d := range got {
		sums[d.GetTenantId()] += d.GetCount()
		require.LessOrEqual(t, len(d.GetRequestId()), maxText)
		if d.GetTenantId() == "quiet" && d.GetUserId() == "ann" {
			seen++
		}
	}
	require.Equal(t, map[string]int64{"": flood, "loud": 1000, "quiet": 1}, sums)
	require.Equal(t, 1, seen)

	for i := range 10_000 { // as many tenants, and reasons that Mind does not use
		tally.Note(Denial{Tenant: fmt.Sprint(i), Outcome: "PERMISSION_DENIED", Reason: fmt.Sprint(i)}, "", noon)
	}
	got = tally.Take()
	require.LessOrEqual(t, len(got), MaxTold)
	sum := int64(0)
	for _, d := range got {
		sum += d.GetCount()
	}
	require.EqualValues(t, 10_000, sum)
}

func BenchmarkNote(b *testing.B) {
	var tally Tally
	b.ReportAllocs()
	for i := range b.N {
		tally.Note(Denial{Outcome: "UNAUTHENTICATED", Reason: "AUTH_TOKEN_INVALID", What: "GET /jobs", Address: addresses[i%len(addresses)]}, "req", noon)
	}
}

var addresses = func() []string {
	var out []string
	for i := range 1000 {
		out = append(out, fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
	}
	return out
}()
