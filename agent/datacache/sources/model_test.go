package sources

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
			s := &Source{Version: "c1", repository: true}
			for _, file := range slices.Concat(c.left, always, c.kept) {
				s.Files = append(s.Files, File{Name: file})
			}
			model := s.AsModel()
			var got []string
			for _, f := range model.Files {
				got = append(got, f.Name)
			}
			require.Equal(t, slices.Concat(always, c.kept), got)
			require.Equal(t, len(c.left) > 0, model.Part != "", "what is whole is no source of its own")
			require.Equal(t, model, model.AsModel())

			elsewhere := &Source{Files: s.Files}
			require.Equal(t, elsewhere, elsewhere.AsModel(), "only a repository is known to hold the same twice")
		})
	}
}
