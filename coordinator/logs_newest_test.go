package coordinator

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/fsm"
)

// However the lines come in, those that are kept are the newest, in the order of their time and of their ranks.
func TestNewest_areWhatSortingAllWouldKeep(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const ranks, each = 3, 4000
		clock := [ranks]int64{}
		at := [ranks]uint64{}
		kept := newest{most: r.IntN(2 * each)}
		offsets := map[uint16]uint64{}
		var all []logLine
		for range ranks * each / 100 {
			rank := uint16(r.IntN(ranks))
			var some []logLine
			for range 100 {
				clock[rank] += int64(r.IntN(5)) - 1 // now and then set back
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
		// Of lines of one moment, any may be the older one: it is times that must be those of the newest.
		for i := range want {
			require.Equal(t, want[i].entry.UnixNanos, kept.lines[i].entry.UnixNanos, "seed %d", seed)
		}
		// Nothing is missing between what was let go of and what is kept.
		for _, l := range kept.lines {
			require.Equal(t, offsets[l.rank]+1, l.entry.Offset, "seed %d", seed)
			offsets[l.rank] = l.entry.Offset
		}
		for rank := range uint16(ranks) {
			require.Equal(t, at[rank], offsets[rank], "seed %d", seed)
		}
	}
}

// A tail of a gang is merged where it is asked for. Whoever asks for all that there is must not be able to fill the memory of
// the coordinator with it, nor get a message that nobody can receive.
func TestLogs_aTailOfAGangIsBounded(t *testing.T) {
	c := startCluster(t, 1, nil)
	a1, a2 := c.agent("n1", 1), c.agent("n2", 1)
	id := c.submit("c1", sleeper(2, 2))
	c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
	long := make([]string, 400) // 25 MiB of each rank
	for i := range long {
		long[i] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 64<<10))
	}
	a1.write(id, 1, long...)
	a2.write(id, 1, long...)
	stream := c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Tail: proto.Int32(1 << 30), Follow: proto.Bool(false)})
	total, last := 0, ""
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Less(t, proto.Size(resp), 4<<20)
		total += proto.Size(resp)
		for _, e := range resp.GetEntries() {
			last = e.GetCursor()
		}
	}
	require.Less(t, total, maxTailBytes*5/4)
	require.Greater(t, total, maxTailBytes/2)
	require.Equal(t, "1:0=400,1=400", last)
}

// What node and archive say of their failures has paths and addresses in it, which are nobody's business who reads a job.
func TestLogs_whatIsMissingIsSaidWithoutWhatIsInside(t *testing.T) {
	r := &reading[*v1.TaskLogEntry]{
		taskStreams: &taskStreams{log: slog.New(slog.DiscardHandler), view: fsm.New().View},
		src:         source{node: "n1", started: true}, what: "log", at: 7,
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
