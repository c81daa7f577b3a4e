// Package modelfiles selects the files of a model repository that must be fetched, by their names only.
//
// Guarantees: a file is skipped only if its name shows that it holds weights in another format, and the complete weights
// are present as safetensors. Files with unknown names are kept.
package modelfiles

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Repositories of models often hold the same weights several times: for PyTorch, TensorFlow, Flax and Rust, and exported
// for other runtimes. Libraries load the safetensors if they are present.

// weightFile is a name such as pytorch_model.fp16-00001-of-00002.bin or model.safetensors.index.json.
var weightFile = regexp.MustCompile(`^([a-z_]+)(?:\.([A-Za-z0-9_]+))?(?:-(\d{5})-of-(\d{5}))?(?:\.([A-Za-z0-9_]+))?\.(safetensors|bin|h5|msgpack|ot)(\.index(?:\.([A-Za-z0-9_]+))?\.json)?$`)

// sameWeights maps the names of weights in other formats to their names as safetensors.
var sameWeights = map[string]string{
	"pytorch_model.bin": "model", "tf_model.h5": "model", "flax_model.msgpack": "model", "rust_model.ot": "model",
	"adapter_model.bin":           "adapter_model",
	"diffusion_pytorch_model.bin": "diffusion_pytorch_model", "diffusion_flax_model.msgpack": "diffusion_pytorch_model",
}

// exported matches names of weights for other runtimes, and of weights in the form used in training. They may be
// anywhere below their model.
var exported = regexp.MustCompile(`(^|/)([^/]+\.onnx|[^/]+\.onnx[._]data|openvino_[^/]*model[^/]*\.bin|[^/]+\.gguf|[^/]+\.tflite|[^/]+\.mlmodel|consolidated[^/]*\.pth|[^/]+\.mlpackage/.*/weights/[^/]+\.bin)$`)

// weights identifies one set of weights: a directory, a name, and a variant such as fp16.
type weights struct{ dir, stem, variant string }

// shards records the shards of a set that are present. mixed: the set is split in two ways, and nothing shows which one
// is complete.
type shards struct {
	whole, index, mixed bool
	seen, of            int
}

// parsed reads the name of a file of weights.
func parsed(name string) (set weights, format string, shard, of int, index, ok bool) {
	dir, base := path.Split(name)
	m := weightFile.FindStringSubmatch(base)
	if m == nil {
		return set, "", 0, 0, false, false
	}
	variant := m[2] + m[5] + m[8] // its position depends on the version of the program that wrote the file
	shard, _ = strconv.Atoi(m[3])
	of, _ = strconv.Atoi(m[4])
	return weights{dir, m[1], variant}, m[6], shard, of, m[7] != "", true
}

// safetensorsOf returns the sets of weights that are complete as safetensors: all shards and their index.
func safetensorsOf(files []string) map[weights]bool {
	found := map[weights]*shards{}
	for _, name := range files {
		set, format, shard, of, index, ok := parsed(name)
		if !ok || format != "safetensors" {
			continue
		}
		have := found[set]
		if have == nil {
			have = &shards{}
			found[set] = have
		}
		switch {
		case index:
			have.index = true
		case of == 0:
			have.whole = true
		case shard >= 1 && shard <= of && (have.of == 0 || have.of == of):
			have.seen++ // no name is there twice
			have.of = of
		default:
			have.mixed = true
		}
	}
	whole := map[weights]bool{}
	for set, have := range found {
		if have.whole || have.index && !have.mixed && have.of > 0 && have.seen == have.of {
			whole[set] = true
		}
	}
	return whole
}

// Kept returns the files of a repository that must be fetched, in their order.
func Kept(files []string) []string {
	whole, names := safetensorsOf(files), map[string]bool{}
	for _, name := range files {
		names[name] = true
	}
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool { return superfluous(name, names, whole) })
}

// superfluous reports whether a file holds weights that are present as safetensors, too.
func superfluous(name string, names map[string]bool, whole map[weights]bool) bool {
	if set, format, _, _, _, ok := parsed(name); ok && format != "safetensors" {
		if stem := sameWeights[set.stem+"."+format]; stem != "" {
			return whole[weights{set.dir, stem, set.variant}]
		}
	}
	switch ext := path.Ext(name); ext {
	case ".ckpt", ".bin", ".pt", ".pth":
		if names[strings.TrimSuffix(name, ext)+".safetensors"] {
			return true
		}
	}
	if !exported.MatchString(name) || strings.Contains(path.Base(name), "tokenizer") {
		return false
	}
	for dir, _ := path.Split(name); ; dir, _ = path.Split(strings.TrimSuffix(dir, "/")) {
		if whole[weights{dir: dir, stem: "model"}] || whole[weights{dir: dir, stem: "diffusion_pytorch_model"}] {
			return true
		}
		if dir == "" {
			return false
		}
	}
}
