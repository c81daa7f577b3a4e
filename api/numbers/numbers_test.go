package numbers_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/api/numbers"
)

// sent returns a Value as the other side of a connection has it.
func sent(t require.TestingT, v *structpb.Value) *structpb.Value {
	data, err := proto.Marshal(v)
	require.NoError(t, err)
	var got structpb.Value
	require.NoError(t, proto.Unmarshal(data, &got))
	return &got
}

func TestNumbers_keepTheirKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, f := rapid.Int64().Draw(t, "int"), rapid.Float64().Draw(t, "double")
		require.Equal(t, n, numbers.Of(sent(t, numbers.Int(n))))
		require.Equal(t, f, numbers.Of(sent(t, numbers.Double(f))))
		require.Equal(t, math.Trunc(f), numbers.Of(sent(t, numbers.Double(math.Trunc(f)))))
	})
}

func TestRead(t *testing.T) {
	for literal, want := range map[json.Number]any{
		"1": int64(1), "-0": int64(0), "1.0": 1.0, "1e3": 1000.0, "0.5": 0.5, "9007199254740993": int64(9007199254740993),
		"-9223372036854775808": int64(math.MinInt64), "9223372036854775808": 9223372036854775808.0,
	} {
		v, ok := numbers.Read(literal)
		require.True(t, ok, literal)
		require.Equal(t, want, numbers.Of(sent(t, v)), literal)
	}
	_, ok := numbers.Read("1e999")
	require.False(t, ok)
	require.Equal(t, int64(3), numbers.Of(structpb.NewNumberValue(3)), "from a program that does not know kinds")
	require.Equal(t, 1e300, numbers.Of(structpb.NewNumberValue(1e300)))
}
