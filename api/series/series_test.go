package series

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// draw draws the values of a history. As those of an agent, their times do not decrease.
func draw(t *rapid.T, n int) (all []Value) {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-2, 2), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}))
	// The numbers are a short list, repeated, because drawing thousands would be slow.
	some := rapid.SliceOfN(number, 1, 50).Draw(t, "numbers")
	hasStep := rapid.Bool().Draw(t, "has steps")
	pace := rapid.Int64Range(0, 5000).Draw(t, "pace")
	for i := range n {
		v := Value{At: 1_700_000_000_000 + int64(i)*pace, Step: NoStep, Number: some[i*7%len(some)]}
		if hasStep {
			v.Step = int64(i * 10)
		}
		all = append(all, v)
	}
	return all
}

// requirePoints compares points with the values that they stand for.
func requirePoints(t require.TestingT, values []Value, got *v1.MetricSeries) {
	var finite []Value
	for _, v := range values {
		if !math.IsNaN(v.Number) && !math.IsInf(v.Number, 0) {
			finite = append(finite, v)
		}
	}
	require.EqualValues(t, len(values)-len(finite), got.GetNotFinite())
	for _, p := range got.GetPoints() {
		require.Positive(t, p.GetCount())
		require.LessOrEqual(t, p.GetCount(), int64(len(finite)), "a value is there twice")
		mine := finite[:p.GetCount()]
		finite = finite[p.GetCount():]
		low, high, mean := mine[0].Number, mine[0].Number, 0.0
		for _, v := range mine {
			low, high, mean = math.Min(low, v.Number), math.Max(high, v.Number), mean+v.Number/float64(len(mine))
		}
		last := mine[len(mine)-1]
		require.Equal(t, low, p.GetMin())
		require.Equal(t, high, p.GetMax())
		require.Equal(t, last.Number, p.GetLast())
		require.Equal(t, last.At, p.GetTime().AsTime().UnixMilli())
		require.Equal(t, last.Step != NoStep, p.Step != nil)
		require.Equal(t, max(0, last.Step), p.GetStep())
		require.InDelta(t, math.Max(low, math.Min(high, mean)), p.GetMean(), 1e-9*math.Max(math.Abs(low), math.Abs(high)))
		require.True(t, low <= p.GetMean() && p.GetMean() <= high)
	}
	require.Empty(t, finite, "values are missing")
}

// Each point must be exact about the values that it stands for, and each value must be counted once, for any values,
// any number of points, and after the Set was written to its file and read again at any moment.
func TestSet_pointsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := draw(t, rapid.IntRange(0, 5000).Draw(t, "values"))
		others := rapid.SampledFrom([]int{0, 1, 30, 200}).Draw(t, "other numbers")
		begin := rapid.IntRange(0, len(values)).Draw(t, "others begin after")
		restart := rapid.IntRange(0, len(values)).Draw(t, "file is read after")
		s := New()
		for i, v := range values {
			if i == begin {
				for n := range others {
					require.True(t, s.Add(Number{Name: fmt.Sprintf("other%d", n)}, v))
				}
			}
			require.True(t, s.Add(Number{Name: "loss"}, v))
			if i == restart {
				s = again(t, s)
			}
		}
		points := rapid.IntRange(1, 2000).Draw(t, "points")
		for _, set := range []*Set{s, again(t, s)} {
			found := set.Select([]string{"loss"}, points)
			if len(values) == 0 {
				require.Empty(t, found)
				continue
			}
			require.Len(t, found, 1)
			require.LessOrEqual(t, len(found[0].GetPoints()), points)
			requirePoints(t, values, found[0])
			fewer := rapid.IntRange(1, 2000).Draw(t, "fewer points")
			found[0].Points = Merge(found[0].GetPoints(), fewer)
			require.LessOrEqual(t, len(found[0].GetPoints()), fewer)
			requirePoints(t, values, found[0])
		}
	})
}

func again(t require.TestingT, s *Set) *Set {
	data, err := s.Encode()
	require.NoError(t, err)
	require.Less(t, len(data), MaxFile)
	read, err := Decode(data)
	require.NoError(t, err)
	require.Equal(t, s.Step, read.Step)
	require.Equal(t, s.MetricsOffset, read.MetricsOffset)
	return read
}

// A long history must use at least half of the buckets that it may have.
func TestSet_usesItsBuckets(t *testing.T) {
	s := New()
	for i := range 100_000 {
		s.Add(Number{Name: "loss"}, Value{At: int64(i), Step: int64(i), Number: 1})
		if i >= MostBuckets {
			require.GreaterOrEqual(t, len(s.histories["loss"].buckets), MostBuckets/2)
		}
	}
	require.Len(t, s.Select(nil, 200)[0].GetPoints(), 200)
}

// A Set must stay bounded with any number of numbers and values.
func TestSet_isBounded(t *testing.T) {
	s := New()
	for i := range 3000 {
		v := Value{At: int64(i) * 3_000_000_000, Step: int64(i) * 1_000_000_007, Number: math.Pi * float64(i)}
		for n := range MaxReported + 10 {
			require.Equal(t, n < MaxReported, s.Add(Number{Name: fmt.Sprintf("%0*d", MaxName, n)}, v))
		}
		for n := range MaxMeasured + 10 {
			require.Equal(t, n < MaxMeasured, s.Add(Number{Name: fmt.Sprintf("gpu%d.power_watts", n), Unit: "watts"}, v))
		}
	}
	total := 0
	for _, h := range s.histories {
		total += len(h.buckets)
	}
	require.LessOrEqual(t, total, MaxBuckets)
	require.Greater(t, total, MaxBuckets/4)
	again(t, s)

	full := New() // a Set with as many buckets as possible
	for i := range 16 * MostBuckets {
		for n := range 16 {
			full.Add(Number{Name: fmt.Sprint("n", n)}, Value{At: int64(i) * 3_000_000_000, Step: int64(i) * 1_000_000_007, Number: math.Pi * float64(i)})
		}
	}
	data, err := full.Encode()
	require.NoError(t, err)
	require.Less(t, len(data), MaxFile)
	t.Logf("the largest file has %d bytes", len(data))
}

// The file may have any content: it is in a directory that the task can write to, and is not synced.
func TestDecode_acceptsOnlyWhatASetCanHave(t *testing.T) {
	s := New()
	for i := range 100 {
		s.Add(Number{Name: "loss"}, Value{At: int64(i), Step: int64(i), Number: float64(i)})
	}
	whole, err := s.Encode()
	require.NoError(t, err)
	for cut := range whole {
		_, err := Decode(whole[:cut])
		require.ErrorIs(t, err, ErrDamaged, "cut after %d", cut)
		changed := append([]byte(nil), whole...)
		changed[cut] ^= 0x10
		_, err = Decode(changed)
		require.ErrorIs(t, err, ErrDamaged, "changed at %d", cut)
	}

	for name, spoil := range map[string]func(*v1.TaskSeries, *v1.NumberHistory){
		"a list too short":      func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Lasts = h.Lasts[:3] },
		"NaN":                   func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Means[3] = math.NaN() },
		"infinite":              func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Maxs[3] = math.Inf(1) },
		"last beyond max":       func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Lasts[3] = 1000 },
		"no values in a bucket": func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Counts[3] = 0 },
		"too many values":       func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Counts[3] = 2 },
		"no width":              func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Width = 0 },
		"a time that is none":   func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Times[0] = math.MaxInt64 },
		"a step that is none":   func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Steps[0] = -5 },
		"no name":               func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Name = "" },
		"a name that moves":     func(_ *v1.TaskSeries, h *v1.NumberHistory) { h.Name = "\x1b[2J" },
		"a name twice":          func(s *v1.TaskSeries, h *v1.NumberHistory) { s.Histories = append(s.Histories, h) },
		"too many names": func(s *v1.TaskSeries, _ *v1.NumberHistory) {
			for i := range MaxReported {
				s.Histories = append(s.Histories, &v1.NumberHistory{Name: fmt.Sprint(i), Width: 1})
			}
		},
	} {
		file := &v1.TaskSeries{Histories: []*v1.NumberHistory{s.histories["loss"].encode()}}
		_, err := Decode(fileOf(t, file))
		require.NoError(t, err)
		spoil(file, file.Histories[0])
		_, err = Decode(fileOf(t, file))
		require.ErrorIs(t, err, ErrDamaged, name)
	}
}

func fileOf(t *testing.T, file *v1.TaskSeries) []byte {
	body, err := proto.Marshal(file)
	require.NoError(t, err)
	return seal(body)
}

func FuzzDecode(f *testing.F) {
	s := New()
	for i := range 100 {
		s.Add(Number{Name: "loss"}, Value{At: int64(i), Step: int64(i), Number: float64(i)})
	}
	data, err := s.Encode()
	require.NoError(f, err)
	f.Add(data[len(magic)+4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		read, err := Decode(seal(body))
		if err != nil {
			return
		}
		read.Add(Number{Name: "loss"}, Value{At: 1, Step: NoStep, Number: 1})
		for _, one := range read.Select(nil, 10) {
			require.LessOrEqual(t, len(one.GetPoints()), 10)
		}
		again(t, read)
	})
}

func BenchmarkAdd(b *testing.B) {
	s := New()
	v := Value{Step: NoStep}
	for b.Loop() {
		v.At++
		v.Number = float64(v.At % 100)
		s.Add(Number{Name: "loss"}, v)
	}
}
