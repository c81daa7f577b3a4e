package output

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func manyPoints(n int) (points []*v1.MetricPoint) {
	for i := range n {
		x := float64(i)
		points = append(points, &v1.MetricPoint{Time: &timestamppb.Timestamp{Seconds: int64(i)}, Min: x, Max: x, Mean: x, Last: x, Count: 1})
	}
	return points
}

// Tasks answer one after another, and each answer may be large. The memory is bounded, and the result has the least and
// the greatest value of each series.
func TestSeriesAnswer_isBounded(t *testing.T) {
	a := &seriesAnswer{}
	for task := range 400 {
		var some []*v1.MetricSeries
		for n := range 4 {
			some = append(some, &v1.MetricSeries{Name: fmt.Sprint("n", n), Rank: int32(399 - task), Points: manyPoints(2000)})
		}
		require.True(t, a.take(some, nil))
		require.LessOrEqual(t, a.points, 2*maxSeriesPoints)
	}
	require.True(t, a.take(nil, &loss{message: "b"}))
	require.True(t, a.take(nil, &loss{message: "a"}))
	a.finish()
	require.Len(t, a.found, 1600)
	require.LessOrEqual(t, a.points, maxSeriesPoints)
	for i, one := range a.found {
		require.EqualValues(t, i/4, one.GetRank())
		require.Equal(t, fmt.Sprint("n", i%4), one.GetName())
		low, high, count := 1e9, 0.0, int64(0)
		for _, p := range one.GetPoints() {
			low, high, count = min(low, p.GetMin()), max(high, p.GetMax()), count+p.GetCount()
		}
		require.Equal(t, []any{0.0, 1999.0, int64(2000)}, []any{low, high, count})
	}
	require.Equal(t, "a", a.lost[0].message)

	more := make([]*v1.MetricSeries, maxSeries)
	require.False(t, a.take(more, nil), "too many: the others need not be asked")
}

func TestSeriesAnswer_ofNothing(t *testing.T) {
	a := &seriesAnswer{}
	require.True(t, a.take(nil, nil))
	a.finish()
	require.Empty(t, a.found)
}

func TestSeriesReading_saysWhatIsMissing(t *testing.T) {
	r := &seriesReading{Service: &Service{}, seriesTask: seriesTask{attempt: 1, source: source{node: "n1"}}}
	for code, want := range map[codes.Code]string{
		codes.NotFound:      "node n1 no longer has them, and there is no log archive",
		codes.Unimplemented: "node n1 has an agent that keeps none, and there is no log archive",
		codes.Unavailable:   "node n1 does not answer, and there is no log archive",
	} {
		require.Equal(t, want, r.why(status.Error(code, "dial tcp 10.0.0.1:9000: refused"), nil))
	}
}
