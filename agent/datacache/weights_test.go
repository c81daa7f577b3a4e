package datacache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHub_aModelInManyFormats(t *testing.T) {
	h := newFakeHub(t)
	repo := sharded()
	repo.files["pytorch_model.bin"], repo.large["pytorch_model.bin"] = string(noise(500_001)), true
	h.repos["models/acme/llama"] = repo
	c := h.cache(t)
	const path = "hf://models/acme/llama"
	fetch := func(path string, oneFormat bool) *Data {
		data, err := c.Fetch(deadline(t), Request{Tenant: "t1", Path: path, Owner: "o", OneFormat: oneFormat})
		require.NoError(t, err)
		return data
	}
	model := fetch(path, true)
	require.NotContains(t, model.Files, "pytorch_model.bin")
	require.Len(t, model.Files, len(repo.files)-1)
	require.Equal(t, 2, h.signed, "nothing else was fetched")

	// A data source has all files, although the same repository is cached as a model without some; and vice versa.
	whole := fetch(path, false)
	require.Equal(t, repo.files["pytorch_model.bin"], contents(t, whole, "pytorch_model.bin"))
	require.Len(t, whole.Files, len(repo.files))
	require.NotEqual(t, model.Digest, whole.Digest)
	before := h.signed
	require.Equal(t, model, fetch(path, true))
	require.Equal(t, whole, fetch(path, false))
	require.Equal(t, before, h.signed, "both are kept")
	entries, _ := c.Entries("t1")
	require.Len(t, entries, 2)

	require.Equal(t, []string{"pytorch_model.bin"}, fetch(path+"/pytorch_model.bin", true).Files, "what is named is meant")
}
