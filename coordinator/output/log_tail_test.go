package output

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/fsm"
)

// In whatever order the lines arrive, the kept lines are the newest, sorted by time and rank.
func TestNewest_areWhatSortingAllWouldKeep(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const ranks, each = 3, 4000
		clock := [ranks]int64{1000, 1000, 1000}
		at := [ranks]uint64{}
		kept := newest{most: r.IntN(2 * each)}
		offsets := map[uint16]uint64{}
		var all []logLine
		for range ranks * each / 100 {
			rank := uint16(r.IntN(ranks))
			var some []logLine
			for range 100 {
				clock[rank] += int64(r.IntN(5)) - 1 // sometimes set back
				at[rank]++
				line := logLine{rank, &v1.TaskLogEntry{Offset: at[rank], UnixNanos: clock[rank], Line: fmt.Sprint(rank, " ", at[rank])}}
				some = append(some, line)
				all = append(all, logLine{rank, proto.CloneOf(line.entry)})
			}
			kept.take(some, offsets)
		}
		kept.cut(offsets)
		inOrder(all, 0, map[uint16]int64{})
		want := all[max(0, len(all)-kept.most):]
		require.Len(t, kept.lines, len(want))
		// Lines of the same time have no order, so only the times are compared.
		for i := range want {
			require.Equal(t, want[i].entry.UnixNanos, kept.lines[i].entry.UnixNanos, "seed %d", seed)
		}
		// No line is missing between the dropped and the kept ones.
		for _, l := range kept.lines {
			require.Equal(t, offsets[l.rank]+1, l.entry.Offset, "seed %d", seed)
			offsets[l.rank] = l.entry.Offset
		}
		for rank := range uint16(ranks) {
			require.Equal(t, at[rank], offsets[rank], "seed %d", seed)
		}
	}
}

// The errors of node and archive contain paths and addresses, which readers of a job must not see.
func TestLogs_whatIsMissingIsSaidWithoutWhatIsInside(t *testing.T) {
	r := &reading[*v1.TaskLogEntry]{
		Service: &Service{log: slog.New(slog.DiscardHandler), state: emptyState{}},
		src:     source{node: "n1", started: true}, what: "log", at: 7,
	}
	r.archive.store = struct{ archive.Store }{}
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable, codes.Unknown} {
		err := r.lose(false, status.Error(code, "open /var/lib/mind/tasks/x: permission denied; dial tcp 10.1.2.3:7411: refused"), errors.New("s3: AKIA at 10.1.2.3"))
		require.ErrorContains(t, err, "is missing after byte 7")
		for _, leak := range []string{"/var/lib", "10.1.2.3", "AKIA", "permission"} {
			require.NotContains(t, err.Error(), leak)
		}
	}
}

// emptyState is the state of a new cluster.
type emptyState struct{ State }

func (emptyState) View() *fsm.View { return fsm.New().View() }
