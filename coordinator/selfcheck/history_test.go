package selfcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkRing(t *testing.T) {
	var r markRing
	require.Zero(t, r.last())
	_, ok := r.atMost(1 << 40)
	require.False(t, ok)
	for i := uint64(1); i <= 25; i++ {
		r.add(stateMark{2 * i, i}, 10)
		require.Equal(t, stateMark{2 * i, i}, r.last())
	}
	for i := uint64(0); i <= 60; i++ {
		m, ok := r.atMost(i)
		require.Equal(t, i >= 32, ok, i) // the last ten are 32, 34, ... 50
		if ok {
			want := min(i/2, 25)
			require.Equal(t, stateMark{2 * want, want}, m, i)
		}
	}
	r.add(stateMark{50, 99}, 10)
	require.Equal(t, stateMark{50, 99}, r.last(), "the same index is noted once")
	m, _ := r.atMost(49)
	require.Equal(t, uint64(48), m.index)
	r.clear()
	require.Zero(t, r.last())
}

func TestHistory_underLoadReplicasFarApartStillFindACommonIndex(t *testing.T) {
	var ahead, lags history
	note := func(h *history, index uint64) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.recent.add(stateMark{index, index * 7}, recentMarks)
		if index%sparseStep == 0 {
			h.sparse.add(stateMark{index, index * 7}, sparseMarks)
		}
	}
	for i := uint64(1); i <= 40_000; i++ {
		note(&ahead, i)
		if i <= 30_000 {
			note(&lags, i)
		}
	}
	m, ok := ahead.near(39_999)
	require.True(t, ok)
	require.Equal(t, uint64(39_999), m.index)
	m, ok = ahead.near(29_999)
	require.True(t, ok)
	require.Equal(t, stateMark{29_952, 29_952 * 7}, m)
	other, ok := lags.at(m.index)
	require.True(t, ok)
	require.Equal(t, m, other)
	_, ok = lags.at(39_999)
	require.False(t, ok)
	_, ok = ahead.at(30_001)
	require.False(t, ok, "too long ago, and no multiple")
}
