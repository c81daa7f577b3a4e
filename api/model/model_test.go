package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestOfTraining(t *testing.T) {
	for name, c := range map[string]struct {
		id, source, revision string
		want                 string
		byDefault            bool
	}{
		"a bare name":                         {"meta-llama/Llama-3-8B", "", "", "hf://models/meta-llama/Llama-3-8B", true},
		"of a revision":                       {"meta-llama/Llama-3-8B", "", "refs/pr/1", "hf://models/meta-llama/Llama-3-8B@refs%2Fpr%2F1", true},
		"without an owner":                    {"gpt2", "", "", "hf://models/gpt2", true},
		"on the hub":                          {"gpt2", "HuggingFace", "", "hf://models/gpt2", false},
		"left to the program":                 {"gpt2", "program", "", "", false},
		"a path left to the program":          {"/m", "custom", "", "", false},
		"no name of the hub":                  {"my model", "", "", "", false},
		"no name of the hub, either":          {"a/b/c", "", "", "", false},
		"a relative path":                     {"./m", "", "", "", false},
		"a path":                              {"/models/a", "", "", "/models/a", false},
		"a path, said so":                     {"/models/a", "local", "", "/models/a", false},
		"ScaiAtlas":                           {"m-17", "scaiatlas", "", "scaiatlas://m-17/", false},
		"ScaiDrive":                           {"acme/models/a/", "scaidrive", "", "scaidrive://acme/models/a/", false},
		"a URL":                               {"s3://b/models/a/", "", "", "s3://b/models/a/", false},
		"a URL with its kind":                 {"s3://b/models/a/", "s3", "", "s3://b/models/a/", false},
		"a URL with a revision of no use":     {"s3://b/models/a/", "", "v1", "s3://b/models/a/", false},
		"of the hub without a kind":           {"hf://acme/m", "", "", "hf://models/acme/m", false},
		"of the hub, at a revision":           {"hf://models/acme/m", "", "v1", "hf://models/acme/m@v1", false},
		"of the hub, said twice and alike":    {"hf://acme/m@v1", "", "v1", "hf://models/acme/m@v1", false},
		"a folder of the hub":                 {"hf://acme/m@v1/sub/f", "", "", "hf://models/acme/m@v1/sub/f", false},
		"weights among data":                  {"hf://datasets/acme/m", "", "", "hf://datasets/acme/m", false},
		"nothing":                             {"", "", "", "", false},
		"without an owner, with a revision":   {"hf://models/gpt2@v1", "", "", "hf://models/gpt2@v1", false},
		"of the hub, with a slash at the end": {"hf://acme/m/", "", "", "hf://models/acme/m", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := OfTraining(&v1.BaseModel{ModelId: c.id, Source: c.source, Revision: c.revision})
			require.NoError(t, err)
			require.Equal(t, Ref{Name: c.id, Source: c.want, Default: c.byDefault}, got)
		})
	}
}

func TestOfTraining_weightsInOtherFormats(t *testing.T) {
	for name, c := range map[string]struct {
		kwargs map[string]string
		want   bool
	}{
		"nothing said":           {nil, false},
		"something else":         {map[string]string{"attn_implementation": "sdpa"}, false},
		"safetensors":            {map[string]string{"use_safetensors": "True"}, false},
		"no safetensors":         {map[string]string{"use_safetensors": "False"}, true},
		"weights of TensorFlow":  {map[string]string{"from_tf": "true"}, true},
		"weights of Flax":        {map[string]string{"from_flax": "true"}, true},
		"not those of Flax":      {map[string]string{"from_flax": "false"}, false},
		"a file of its own kind": {map[string]string{"gguf_file": "m-q4.gguf"}, true},
	} {
		got, err := OfTraining(&v1.BaseModel{ModelId: "acme/m", ModelKwargs: c.kwargs})
		require.NoError(t, err)
		require.Equal(t, c.want, got.AllFormats, name)
	}
}

func TestOfTraining_refuses(t *testing.T) {
	for name, c := range map[string]struct{ id, source, revision, want string }{
		"two revisions":           {"hf://acme/m@v1", "", "v2", "different revisions"},
		"no path":                 {"models/a", "local", "", "absolute path"},
		"no URL":                  {"models/a", "s3", "", "must be a URL"},
		"no name of the hub":      {"a b", "hf", "", "OWNER/NAME"},
		"out of ScaiAtlas":        {"a/../b", "scaiatlas", "", "not a name in scaiatlas"},
		"a query for ScaiDrive":   {"a?b", "scaidrive", "", "not a name in scaidrive"},
		"a way out of a name":     {"a/..", "huggingface", "", "OWNER/NAME"},
		"a revision that is none": {"hf://acme/m@", "", "", "revision"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OfTraining(&v1.BaseModel{ModelId: c.id, Source: c.source, Revision: c.revision})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestOfURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/models/a": "/models/a", "hf://acme/m": "hf://models/acme/m", "file:///models/a": "file:///models/a", "scaidrive://acme/m/": "scaidrive://acme/m/",
	} {
		got, err := OfURI(uri)
		require.NoError(t, err)
		require.Equal(t, Ref{Name: uri, Source: want}, got)
	}
}
