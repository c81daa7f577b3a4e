package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mindcoordinator/mind/api/numbers"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// The training reads the request as it was made, with all digits of its numbers.
func TestConfig_isTheRequestAsItWasMade(t *testing.T) {
	dir := t.TempDir()
	filters := &structpb.Struct{Fields: map[string]*structpb.Value{"id": numbers.Int(9007199254740993), "share": numbers.Double(1)}}
	require.NoError(t, writeConfig(dir, &v1.SubmitJobRequest{Name: "n", DataConfig: &v1.DataConfig{Sources: []*v1.DataSource{{Path: "d", Filters: filters}}}}))
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	require.NoError(t, err)
	require.Equal(t, `{"data_config":{"sources":[{"filters":{"id":9007199254740993,"share":1.0},"path":"d"}]},"name":"n"}`, string(text))
}
