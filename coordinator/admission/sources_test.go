package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckSource(t *testing.T) {
	for _, good := range []string{"/data/x", "file:///data", "hf://datasets/a/b@main/x y", "s3://b/k", "https://h:1/x?sig=1", "scaidrive://acme/set/", "scaiatlas://m/1"} {
		require.NoError(t, CheckSource("f", good), good)
	}
	for text, want := range map[string]string{
		"": "required", "train.jsonl": "neither an absolute path", "ftp://h/x": "ftp:// is not supported", "hf://": "names nothing",
		"https://u:p@h/x": "name or password", "https://h/%zz": "not a URL", "/a\x00b": "NUL", "/" + strings.Repeat("a", maxSourceURI): "longer",
	} {
		require.ErrorContains(t, CheckSource("f", text), want, text)
	}
}
