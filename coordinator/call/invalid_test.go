package call

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaults_areBounded(t *testing.T) {
	var f Faults
	require.NoError(t, f.Err())
	for i := range 20 {
		f.Bad(fmt.Sprint("field", i), "%s", strings.Repeat("x", 2000)+"\nnot a line of its own")
	}
	lines := strings.Split(f.Err().Error(), "\n")
	require.Len(t, lines, MaxFaults+1)
	require.Len(t, lines[0], len("field0: ")+2000+len(" not a line of its own"), "the first is told whole")
	require.Len(t, lines[1], MaxFaultBytes)
	require.Equal(t, "and 4 more", lines[MaxFaults])

	var g Faults
	g.Add(f.Err())
	g.Add(Bad("another", "is wrong"))
	require.Contains(t, g.Err().Error(), "and 5 more")
	require.True(t, g.Below("field0"))
	var first *Invalid
	require.ErrorAs(t, g.Err(), &first)
	require.Equal(t, "field0", first.Field)
}

func TestFaults_whatIsNoFaultOfTheRequestComesFirst(t *testing.T) {
	broken := errors.New("the disk is on fire")
	var f Faults
	f.Bad("a", "is wrong")
	f.Add(broken)
	f.Add(nil)
	require.ErrorIs(t, f.Err(), broken)
}

func TestFaults_below(t *testing.T) {
	var f Faults
	f.Bad("training_config_of_another", "is wrong")
	require.False(t, f.Below("training_config"))
	f.Bad("training_config.priority", "is wrong")
	require.True(t, f.Below("training_config"))
	require.False(t, f.Below("training_config.pri"))
}
