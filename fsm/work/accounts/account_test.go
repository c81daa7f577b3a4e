package accounts

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const week = Life(7 * 24 * time.Hour)

func TestLeft_isThePowerOfTwo(t *testing.T) {
	require.Equal(t, one, left(0, 1000))
	require.InDelta(t, float64(one/2), float64(left(1000, 1000)), 4)
	require.InDelta(t, float64(one/1024), float64(left(10_000, 1000)), 4)
	require.Zero(t, left(math.MaxInt64, 1))
	rapid.Check(t, func(t *rapid.T) {
		half := rapid.Uint64Range(1, 400*365*24*3600*1000).Draw(t, "half-life")
		at := rapid.Uint64Range(0, half*70).Draw(t, "time")
		require.InDelta(t, math.Exp2(-float64(at)/float64(half)), float64(left(at, half))/float64(one), 1e-15)
	})
}

// TestAccount_isTheIntegral settles an account at random times while what is held changes, and compares its sum with the
// integral in floating point.
func TestAccount_isTheIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		life := Life(rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 7 * 24 * time.Hour, 10 * 365 * 24 * time.Hour}).Draw(t, "half-life"))
		half := float64(life.half())
		a, want, at, steps := Account{}, 0.0, int64(0), 0
		for range rapid.IntRange(1, 50).Draw(t, "changes") {
			dt := rapid.SampledFrom([]int64{0, 1, 2, 17, 1000, 60_000, 3_600_000, 86_400_000, 40 * 86_400_000}).Draw(t, "ms")
			f := math.Exp2(-float64(dt) / half)
			want = want*f - float64(a.Holds.GPUMilli)*half/math.Ln2*math.Expm1(-float64(dt)/half*math.Ln2)
			at += dt
			a.Settle(at*1e6+rapid.Int64Range(0, 999_999).Draw(t, "ns"), life)
			steps++
			a.Holds.GPUMilli = uint64(rapid.SampledFrom([]int{0, 1, 250, 1000, 8000, 80_000_000}).Draw(t, "held"))
		}
		require.InDelta(t, want, float64(a.Used.GPUMilli), want*1e-4+float64(steps)*100)
	})
}

func TestAccount_whoHoldsTheSameForEverHasThatMean(t *testing.T) {
	a := Account{Holds: Amount{GPUMilli: 4000, CPUs: 3, Mem: Mem(100)}}
	a.Settle(int64(400*24*time.Hour), week)
	u := a.Lately(int64(400*24*time.Hour), week)
	require.InDelta(t, 4000, float64(u.GPUMilli)/(1<<UsageBits), 0.01)
	require.InDelta(t, 3, float64(u.CPUs)/(1<<UsageBits), 0.01)
	require.InDelta(t, 2, float64(u.Mem)/(1<<UsageBits), 0.01)
	u = a.Usage(int64(400*24*time.Hour), week)
	require.InDelta(t, 8000, float64(u.GPUMilli)/(1<<UsageBits), 0.01, "what was held lately and what is held now")

	a.Holds = Amount{}
	u = a.Usage(int64(407*24*time.Hour), week)
	require.InDelta(t, 2000, float64(u.GPUMilli)/(1<<UsageBits), 0.01, "a half-life later")
	require.True(t, a.Idle())
}

// TestAccount_oftenIsAsGoodAsSeldom holds that an account that changes every millisecond is charged like one that does not.
func TestAccount_oftenIsAsGoodAsSeldom(t *testing.T) {
	often, seldom := Account{Holds: Amount{GPUMilli: 1000, CPUs: 1}}, Account{Holds: Amount{GPUMilli: 1000, CPUs: 1}}
	for ms := range int64(100_000) {
		often.Settle((ms+1)*1e6, week)
	}
	seldom.Settle(100_000*1e6, week)
	require.InEpsilon(t, float64(seldom.Used.GPUMilli), float64(often.Used.GPUMilli), 1e-3)
	require.InEpsilon(t, float64(seldom.Used.CPUs), float64(often.Used.CPUs), 1e-3)
}

func TestAccount_staysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Account{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			life := Life(rapid.Int64Range(0, math.MaxInt64/20).Draw(t, "half-life"))
			a.Settle(rapid.Int64().Draw(t, "time"), life)
			require.LessOrEqual(t, max(a.Used.GPUMilli, a.Used.CPUs, a.Used.Mem), most)
			require.LessOrEqual(t, a.Lately(a.At*1e6, life).GPUMilli, most)
			held := rapid.Uint64Range(0, 1<<50).Draw(t, "held")
			a.Holds = Amount{held, held, held}
		}
	})
}

func BenchmarkAccount_Settle(b *testing.B) {
	a, now := Account{Holds: Amount{1000, 8, 100}}, int64(0)
	for b.Loop() {
		now += 123_456_789
		a.Settle(now, week)
	}
}
