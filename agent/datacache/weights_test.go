package datacache

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAModelIsFetchedInOneFormat(t *testing.T) {
	always := []string{
		"config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "modeling_acme.py", "README.md", "training_args.bin",
		"optimizer.pt", "onnx/config.json", "openvino/openvino_model.xml", "openvino_tokenizer.bin", "tokenizer.onnx", "vocab.bin", "spiece.model",
	}
	for name, c := range map[string]struct{ kept, left []string }{
		"one file": {
			[]string{"model.safetensors"},
			[]string{
				"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "model.onnx_data", "onnx/decoder_model.onnx",
				"onnx/decoder_model.onnx.data", "openvino/openvino_model.bin", "64.tflite", "acme-q4.gguf", "original/consolidated.00.pth",
				"coreml/text/float32_model.mlpackage/Data/com.apple.CoreML/weights/weight.bin", "coreml/model.mlmodel", "model.bin",
			},
		},
		"shards": {
			[]string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"},
			[]string{"pytorch_model-00001-of-00003.bin", "pytorch_model-00002-of-00003.bin", "pytorch_model-00003-of-00003.bin", "pytorch_model.bin.index.json", "consolidated.pth"},
		},
		"a variant that has no safetensors stays": {
			[]string{"model.safetensors", "pytorch_model.fp16.bin", "pytorch_model-00001-of-00001.int8.bin"},
			[]string{"pytorch_model.bin"},
		},
		"a variant that has some": {
			[]string{"model.fp16-00001-of-00001.safetensors", "model.safetensors.index.fp16.json", "pytorch_model.bin"},
			[]string{"pytorch_model.fp16.bin", "pytorch_model-00001-of-00001.fp16.bin", "pytorch_model.bin.index.fp16.json"},
		},
		"parts of a pipeline, each by itself": {
			[]string{
				"unet/diffusion_pytorch_model.safetensors", "text_encoder/pytorch_model.bin", "vae/model.safetensors",
				"vae_decoder/model.onnx", "v1-5.safetensors", "v1-4.ckpt",
			},
			[]string{"unet/diffusion_pytorch_model.bin", "unet/diffusion_flax_model.msgpack", "unet/model.onnx", "vae/pytorch_model.bin", "v1-5.ckpt"},
		},
		"an adapter is not its model": {
			[]string{"adapter_model.safetensors", "pytorch_model.bin", "model.onnx", "acme.gguf"},
			[]string{"adapter_model.bin"},
		},
		"nothing but others":    {[]string{"pytorch_model.bin", "tf_model.h5", "model.onnx", "a.gguf", "b.gguf"}, nil},
		"a shard is missing":    {[]string{"model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}, nil},
		"the index is missing":  {[]string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin"}, nil},
		"only the index":        {[]string{"model.safetensors.index.json", "pytorch_model.bin"}, nil},
		"cut in two ways":       {[]string{"model-00001-of-00001.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin"}, nil},
		"a neighbour's":         {[]string{"a/model.safetensors", "b/pytorch_model.bin", "b/model.onnx"}, nil},
		"nothing but its likes": {[]string{"model.safetensors", "consolidated.safetensors"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{version: "c1", repository: true}
			for _, file := range slices.Concat(c.left, always, c.kept) {
				s.files = append(s.files, remoteFile{name: file})
			}
			model := s.asModel()
			var got []string
			for _, f := range model.files {
				got = append(got, f.name)
			}
			require.Equal(t, slices.Concat(always, c.kept), got)
			require.Equal(t, len(c.left) > 0, model.part != "", "what is whole is no source of its own")
			require.Equal(t, model, model.asModel())

			elsewhere := &source{files: s.files}
			require.Equal(t, elsewhere, elsewhere.asModel(), "only a repository is known to hold the same twice")
		})
	}
}

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
