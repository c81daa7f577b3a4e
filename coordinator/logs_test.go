package coordinator

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/output"
)

func (c *cluster) logs(at string, req *v1.StreamJobLogsRequest) v1.JobService_StreamJobLogsClient {
	c.t.Helper()
	stream, err := c.jobs(at).StreamJobLogs(c.ctx("t1", ""), req)
	require.NoError(c.t, err)
	return stream
}

// lines reads n lines, or all if n is 0.
func lines(t *testing.T, stream v1.JobService_StreamJobLogsClient, n int) (out []string, cursor string) {
	t.Helper()
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, cursor
		}
		require.NoError(t, err)
		for _, e := range resp.GetEntries() {
			out, cursor = append(out, fmt.Sprintf("%d/%d %s", e.GetAttempt(), e.GetRank(), e.GetMessage())), e.GetCursor()
			if n > 0 && len(out) == n {
				return out, cursor
			}
		}
	}
}

func TestLogs_followAndResumeAnywhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		id := c.submit(c.ids[0], sleeper(1, 0))
		c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
		a.write(id, 1, "one", "two", "three")
		got, cursor := lines(t, c.logs(c.ids[0], &v1.StreamJobLogsRequest{JobId: id}), 2)
		require.Equal(t, []string{"1/0 one", "1/0 two"}, got)

		resumed := c.logs(c.ids[1], &v1.StreamJobLogsRequest{JobId: id, Cursor: cursor})
		got, _ = lines(t, resumed, 1)
		require.Equal(t, []string{"1/0 three"}, got)
		a.write(id, 1, "four")
		got, _ = lines(t, resumed, 1)
		require.Equal(t, []string{"1/0 four"}, got)
		a.write(id, 1, "last words")
		a.end(id, 0)
		got, cursor = lines(t, resumed, 0)
		require.Equal(t, []string{"1/0 last words"}, got, "the stream ends when the job has, and not before its last line")

		got, _ = lines(t, c.logs(c.ids[2], &v1.StreamJobLogsRequest{JobId: id, Cursor: cursor}), 0)
		require.Empty(t, got)
		got, _ = lines(t, c.logs(c.ids[2], &v1.StreamJobLogsRequest{JobId: id, Tail: proto.Int32(2)}), 0)
		require.Equal(t, []string{"1/0 four", "1/0 last words"}, got)
	})
}

func TestLogs_ofAGang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		a1, a2 := c.agent("n1", 1), c.agent("n2", 1)
		id := c.submit("c1", sleeper(2, 2))
		c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
		a1.write(id, 1, "a", "b", "c")
		a2.write(id, 1, "x", "y", "z")
		all, _ := lines(t, c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Follow: proto.Bool(false)}), 0)
		require.ElementsMatch(t, []string{"1/0 a", "1/0 b", "1/0 c", "1/1 x", "1/1 y", "1/1 z"}, all)
		one, _ := lines(t, c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Rank: proto.Int32(1), Follow: proto.Bool(false)}), 0)
		require.Equal(t, []string{"1/1 x", "1/1 y", "1/1 z"}, one)
		tail, cursor := lines(t, c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Tail: proto.Int32(2), Follow: proto.Bool(false)}), 0)
		require.Len(t, tail, 2, "over all ranks together")
		a2.write(id, 1, "more")
		rest, _ := lines(t, c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Cursor: cursor, Follow: proto.Bool(false)}), 0)
		require.Equal(t, []string{"1/1 more"}, rest)

		for name, req := range map[string]*v1.StreamJobLogsRequest{
			"cursor that is none": {JobId: id, Cursor: "1:x"},
			"negative attempt":    {JobId: id, Attempt: -1},
			"cursor of another":   {JobId: id, Cursor: "2:0=1"},
		} {
			_, err := c.logs("c1", req).Recv()
			requireCode(t, codes.InvalidArgument, err, name)
		}
		_, err := c.logs("c1", &v1.StreamJobLogsRequest{JobId: id, Rank: proto.Int32(7)}).Recv()
		requireCode(t, codes.NotFound, err)
	})
}

func TestLogs_goOnWithTheNextAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		a := c.agent("n1", 1)
		req := sleeper(1, 0)
		req.SchedulingConfig = &v1.SchedulingConfig{MaxRetries: proto.Int32(1), RetryOn: []string{"exit"}}
		id := c.submit("c1", req)
		c.awaitStatus("c1", id, v1.JobStatus_TRAINING)
		stream := c.logs("c1", &v1.StreamJobLogsRequest{JobId: id})
		a.write(id, 1, "first try")
		first, _ := lines(t, stream, 1)
		require.Equal(t, []string{"1/0 first try"}, first)
		a.write(id, 1, "in vain")
		a.end(id, 1)
		c.await("c1", id, func(j *v1.Job) bool { return j.GetAttempt() == 2 && j.GetStatus() == v1.JobStatus_TRAINING })
		a.write(id, 2, "second try")
		a.end(id, 0)
		got, _ := lines(t, stream, 0)
		require.Equal(t, []string{"1/0 in vain", "2/0 second try"}, got)
		require.EqualValues(t, 1, c.get("c1", id).GetRetries().GetExit())
	})
}

func TestLogs_endWithTheCoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		id := c.submit(c.ids[0], sleeper(1, 0))
		c.awaitStatus(c.ids[0], id, v1.JobStatus_TRAINING)
		at := c.follower()
		stream := c.logs(at, &v1.StreamJobLogsRequest{JobId: id})
		a.write(id, 1, "one", "two")
		_, cursor := lines(t, stream, 1)
		c.kill(at)
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		requireCode(t, codes.Unavailable, err)
		got, _ := lines(t, c.logs(c.running()[0], &v1.StreamJobLogsRequest{JobId: id, Cursor: cursor}), 1)
		require.Equal(t, []string{"1/0 two"}, got)
	})
}

// The coordinator that is asked merges the tail of a gang. A caller that asks for everything must not be able to fill
// the coordinator's memory, nor get a message that is too large to receive.
func TestLogs_aTailOfAGangIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
		require.Less(t, total, output.MaxTailBytes*5/4)
		require.Greater(t, total, output.MaxTailBytes/2)
		require.Equal(t, "1:0=400,1=400", last)
	})
}

// Metrics that only a dead node has are reported missing at once, and the message names the node.
func TestMetrics_ofADeadNodeNameIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		a := c.agent("n1", 1)
		at := c.leader()
		id := c.submit(at, sleeper(1, 0))
		c.awaitStatus(at, id, v1.JobStatus_TRAINING)
		a.close()
		began := time.Now()
		_, err := c.jobs(at).GetJobMetrics(c.ctx("t1", ""), &v1.GetJobMetricsRequest{JobId: id})
		requireCode(t, codes.NotFound, err)
		require.ErrorContains(t, err, "node n1 does not answer")
		require.Less(t, time.Since(began), time.Second, "a client gives up a try after a little more")
	})
}
