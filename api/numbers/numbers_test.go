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
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
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

// A message goes through JSON unchanged, whatever numbers it has where there is no schema.
func TestMessages_keepTheKindsOfTheirNumbers(t *testing.T) {
	const text = `{"data_config":{"preprocess":{"k":9007199254740993},"seed":7,"sources":[` +
		`{"filters":{"f":1.0,"id":9007199254740993,"l":[1,1.5,{"n":-9223372036854775808}]},"path":"a"},{"path":"b","sampling":{"x":{}}}]},"name":"n"}`
	var job v1.SubmitJobRequest
	require.NoError(t, numbers.Unmarshal([]byte(text), &job))
	data, err := proto.Marshal(&job)
	require.NoError(t, err)
	var got v1.SubmitJobRequest
	require.NoError(t, proto.Unmarshal(data, &got))
	out, err := numbers.Marshal(&got)
	require.NoError(t, err)
	require.Equal(t, text, string(out))

	// The names that protojson takes beside those of the protos.
	config := new(v1.DataConfig)
	require.NoError(t, numbers.Unmarshal([]byte(`{"maxSeqLength":5,"preprocess":{"id":9007199254740993}}`), config))
	out, err = numbers.Marshal(config)
	require.NoError(t, err)
	require.Equal(t, `{"max_seq_length":5,"preprocess":{"id":9007199254740993}}`, string(out))
	require.Error(t, numbers.Unmarshal([]byte(`{"nothing":1}`), config))
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a":[1.0,9007199254740993,null,true,"x"]}`: true, `7`: true, `{"a":1e400}`: false, `{} {}`: false, ``: false, `{"a"`: false,
	} {
		v, err := numbers.Parse([]byte(text))
		if require.Equal(t, ok, err == nil, text); !ok {
			continue
		}
		out, err := numbers.JSON(sent(t, v))
		require.NoError(t, err)
		require.Equal(t, text, string(out))
	}
	_, err := numbers.ParseObject([]byte(`[1]`))
	require.ErrorContains(t, err, "no JSON object")
}

func TestWhole(t *testing.T) {
	for f, want := range map[float64]int64{0: 0, 1.9: 1, 1 << 53: 1 << 53, -1: -1, 1e300: -1, math.Inf(1): -1} {
		n, ok := numbers.Whole(f)
		require.Equal(t, want >= 0, ok, f)
		require.Equal(t, max(want, 0), n)
	}
	_, ok := numbers.Whole(math.NaN())
	require.False(t, ok)
}
