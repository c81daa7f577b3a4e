package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// A free value goes out as it came in, also after it was sent on.
func TestDecode_numbersKeepTheirKind(t *testing.T) {
	const text = `{"double":1.0,"fraction":0.5,"int":1,"list":[2.0,2],"long":9007199254740993,"negative":-9223372036854775808,"power":1000.0}`
	var m v1.InvokeCoreRequest
	faults, _ := wire.Decode([]byte(`{"input":{"double":1.0,"fraction":0.5,"int":1,"list":[2.0,2],"long":9007199254740993,"negative":-9223372036854775808,"power":1e3}}`), &m)
	require.Empty(t, faults)
	data, err := proto.Marshal(&m)
	require.NoError(t, err)
	var sent v1.InvokeCoreRequest
	require.NoError(t, proto.Unmarshal(data, &sent))
	require.Contains(t, string(wire.Append(nil, &sent, false)), `"input":`+text)

	faults, _ = wire.Decode([]byte(`{"input":[1e999]}`), &m)
	require.NotEmpty(t, faults)
}
