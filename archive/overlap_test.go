package archive_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
)

func TestOverlaps(t *testing.T) {
	const at = "s3://kept/mind/one?endpoint=https://store.example"
	for _, c := range []struct {
		archive, endpoint, bucket, key string
		want                           bool
	}{
		{at, "https://store.example", "kept", "mind/one/a", true},
		{at, "https://store.example/", "kept", "mind/one", true},
		{at, "https://STORE.example.:443", "kept", "mind/one/", true},
		{at, "https://store.example", "kept", "mind//one/a", true},
		{at, "https://store.example", "kept", "mind", true},
		{at, "https://store.example", "kept", "", true},
		{at, "https://store.example", "kept", "/", true},
		{at, "https://store.example", "kept", "mind/ones", false},
		{at, "https://store.example", "kept", "mind/on", false},
		{at, "https://store.example", "other", "mind/one/a", false},
		{at, "https://store.example:9000", "kept", "mind/one/a", false},
		{at, "", "kept", "mind/one/a", false},
		{"s3://kept", "", "kept", "any", true},
		{"s3://kept?endpoint=https://s3.eu-west-1.amazonaws.com", "", "kept", "any", true},
		{"s3://kept", "https://s3.eu-west-1.amazonaws.com", "kept", "any", true},
		{"s3://kept", "https://amazonaws.com.example", "kept", "any", false},
		{"file:///kept", "", "kept", "any", false},
		{"", "", "kept", "any", false},
	} {
		require.Equal(t, c.want, archive.Overlaps(c.archive, c.endpoint, c.bucket, c.key), "%+v", c)
	}
}
