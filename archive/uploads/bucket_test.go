package uploads

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/s3server"
	"github.com/mindcoordinator/mind/devcluster/ports/porttest"
)

// All that is done with a directory is done with a bucket, too.
func TestUpload_inABucket(t *testing.T) {
	server := s3server.Start(t, porttest.Claim(t), "", "", "")
	address := "s3://" + s3server.Bucket + "/mind?region=us-east-1&path_style=true&endpoint=" + url.QueryEscape(server.URL)
	store, err := archive.Open(address, archive.Access{KeyID: s3server.KeyID, Secret: s3server.Secret})
	require.NoError(t, err)
	one, other := NewKeeper(Config{Store: store, Keep: time.Nanosecond}), NewKeeper(Config{Store: store})
	tree, pieces := project.tree()
	id, lacks, err := one.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	_, err = one.PutPack(t.Context(), tenant, packOf(t, lacks[:1], pieces))
	require.NoError(t, err)
	_, sent := project.sent(t, other, tenant)
	require.Equal(t, len(lacks)-1, sent)
	for range 2 {
		_, err = unpacked(t, store, tenant, id)
		require.NoError(t, err)
		done, err := one.Collect(t.Context(), &jobs{})
		require.NoError(t, err)
		require.Zero(t, done.Trees, "it is retired first")
	}
	require.NoError(t, other.Confirm(t.Context(), tenant, id))
	_, lacks, err = other.Offer(t.Context(), tenant, tree)
	require.NoError(t, err)
	require.Empty(t, lacks, "the packs of a retired upload stay")
	_, err = unpacked(t, store, tenant, id)
	require.NoError(t, err)
}
