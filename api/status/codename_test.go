package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

func TestCodeName(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.FailedPrecondition: "FAILED_PRECONDITION", codes.OK: "OK", codes.NotFound: "NOT_FOUND", codes.Internal: "INTERNAL",
		codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.DataLoss: "DATA_LOSS",
	} {
		require.Equal(t, want, CodeName(code))
	}
}
