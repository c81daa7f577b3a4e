package upgrade

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/level"
)

func supports(id string, newest level.Level) *v1.SupportedLevels {
	return &v1.SupportedLevels{CoordinatorId: id, OldestLevel: uint32(level.Base), NewestLevel: uint32(newest), Program: "v1"}
}

func TestNext_isWhatAllSupport(t *testing.T) {
	const newest = 4
	silent := &v1.SupportedLevels{CoordinatorId: "c3", Reason: "connection refused"}
	before := &v1.SupportedLevels{CoordinatorId: "c2", OldestLevel: 2, NewestLevel: 2}
	for name, c := range map[string]struct {
		now  level.Level
		of   []*v1.SupportedLevels
		to   level.Level
		says []string
	}{
		"all support the newest":    {2, []*v1.SupportedLevels{supports("c1", newest), supports("c2", newest)}, newest, nil},
		"newer ones hold none up":   {2, []*v1.SupportedLevels{supports("c1", newest), supports("c2", newest+3)}, newest, nil},
		"one is between":            {2, []*v1.SupportedLevels{supports("c1", newest), supports("c2", 3)}, 3, []string{"c2 supports levels up to 3 (it runs mind v1)"}},
		"one does not say its name": {2, []*v1.SupportedLevels{supports("c1", newest), before}, 2, []string{"c2 supports levels up to 2 (it runs an older version of mind)"}},
		"one does not answer":       {2, []*v1.SupportedLevels{supports("c1", newest), silent}, 2, []string{"c3 does not say what it supports (connection refused)"}},
		"both":                      {2, []*v1.SupportedLevels{silent, before}, 2, []string{"c2 supports", "; c3 does not say"}},
		"it never falls":            {3, []*v1.SupportedLevels{supports("c1", newest), before}, 3, []string{"c2 supports levels up to 2"}},
		"it stays without answers":  {3, []*v1.SupportedLevels{silent}, 3, []string{"c3"}},
	} {
		t.Run(name, func(t *testing.T) {
			to, why := next(c.now, newest, c.of)
			require.Equal(t, c.to, to)
			require.Equal(t, c.says == nil, why == "", why)
			for _, says := range c.says {
				require.Contains(t, why, says)
			}
		})
	}
}

func TestLevels_ofAMessage(t *testing.T) {
	require.Equal(t, level.Range{Oldest: 2, Newest: 4}, Levels(2, 4))
	require.Equal(t, level.Range{Oldest: 2, Newest: 255}, Levels(2, 1000))
	require.Contains(t, Unfit(4, Levels(0, 0)), "it does not say which feature levels its version of mind supports")
	require.Contains(t, Unfit(4, level.Range{Oldest: 1, Newest: 2}), "supports feature levels up to 2, and the cluster is at 4: start it with the version of the other coordinators")
	require.Contains(t, Unfit(2, level.Range{Oldest: 3, Newest: 5}), "upgrade all coordinators to a version between first")
}
