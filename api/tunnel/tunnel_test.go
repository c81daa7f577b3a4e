package tunnel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestInput_isReadAsItWasWritten(t *testing.T) {
	for _, m := range []*v1.TunnelInput{
		{Bytes: &v1.TunnelBytes{Offset: 1 << 40, Data: []byte{0, 255, '\n'}}},
		{Bytes: &v1.TunnelBytes{Offset: 3, Data: []byte{}, Eof: true}},
		{Size: &v1.TunnelSize{Rows: 24, Columns: 80}, StdoutReceived: 7},
		{HangUp: true},
	} {
		text, data, err := Input(m)
		require.NoError(t, err)
		got, err := ParseInput(text, data)
		require.NoError(t, err)
		require.True(t, proto.Equal(m, got), "%v, not %v", got, m)
	}
}

func TestOutput_isReadAsItWasWritten(t *testing.T) {
	for _, m := range []*v1.TunnelOutput{
		{Ready: &v1.TunnelReady{NodeId: "n1", Attempt: 2, StdinReceived: 9}},
		{Bytes: &v1.TunnelBytes{Channel: v1.TunnelChannel_STDERR, Offset: 1, Data: []byte("x")}},
		{End: &v1.TunnelEnd{ExitCode: 3, Message: "why"}},
	} {
		text, data, err := Output(m)
		require.NoError(t, err)
		got, err := ParseOutput(text, data)
		require.NoError(t, err)
		require.True(t, proto.Equal(m, got), "%v, not %v", got, m)
	}
	_, err := ParseOutput(true, Failure(&Error{Code: "NOT_FOUND", Message: "gone"}))
	var told *Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, Error{Code: "NOT_FOUND", Message: "gone"}, *told)
}

func TestParse_whatIsNoMessage(t *testing.T) {
	for _, data := range []string{"", "12345678"} {
		_, err := ParseInput(false, []byte(data))
		require.Error(t, err)
	}
	for _, text := range []string{"", "[]", `{"no":1}`, `{"bytes":{"data":"eA=="}}`} {
		_, err := ParseInput(true, []byte(text))
		require.Error(t, err, text)
	}
}
