package hyperparameters

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct{ training, name, value, says string }{
		"a name":                      {"SFT", "learning_rate", "2e-4", ""},
		"as it is published":          {"LORA", "lora_r", "16", ""},
		"another name":                {"FULL_FINETUNE", "num_epochs", "3", ""},
		"of the runner":               {"RLHF", "reward_model_id", "acme/judge", ""},
		"nothing":                     {"SFT", "neftune_noise_alpha", "none", ""},
		"a text or a list":            {"LORA", "lora_target_modules", "q_proj,v_proj", ""},
		"a text":                      {"LORA", "lora_target_modules", "all-linear", ""},
		"numbers":                     {"RLHF", "reward_weights", "1.0, 0.5", ""},
		"JSON":                        {"SFT", "lr_scheduler_kwargs", `{"num_cycles": 2}`, ""},
		"one of some":                 {"DPO", "lr_scheduler_type", "cosine", ""},
		"which biases":                {"LORA", "lora_bias", "lora_only", ""},
		"a typing error":              {"SFT", "learning_rte", "1", "is not a hyperparameter of SFT (did you mean learning_rate?); `python3 -m mind_runner names SFT` lists them"},
		"joined otherwise":            {"LORA", "LoraR", "1", "did you mean lora_r?"},
		"nothing like it":             {"SFT", "frobnicate_all", "1", "is not a hyperparameter of SFT; "},
		"of another type":             {"FULL_FINETUNE", "lora_r", "8", "is a hyperparameter of DPO, LORA, QLORA, RLHF, not of FULL_FINETUNE"},
		"elsewhere in the request":    {"SFT", "output_dir", "/x", "it is set by output_config.output_dir"},
		"no number":                   {"SFT", "learning_rate", "fast", `is "fast", and must be a number`},
		"no finite number":            {"SFT", "learning_rate", "1e999", "must be a number"},
		"no whole number":             {"SFT", "max_steps", "1.5", "must be a whole number"},
		"no numbers":                  {"RLHF", "reward_weights", "1.0, x", "must be a list such as a,b"},
		"neither true nor false":      {"SFT", "packing", "yes", "must be true or false"},
		"none of some":                {"DPO", "lr_scheduler_type", "cosin", "must be one of constant, "},
		"none of some numbers":        {"QLORA", "quantization_bits", "3", "must be one of 4, 8"},
		"no JSON object":              {"LORA", "rank_pattern", "[1]", "must be a JSON object"},
		"no step":                     {"SFT", "max_steps", "0", `is "0", and must be at least 1`},
		"as many as there are":        {"SFT", "max_steps", "-1", ""},
		"uphill":                      {"SFT", "lr", "-1", "must be at least 0"},
		"an empty batch":              {"SFT", "batch_size", "0", "must be at least 1"},
		"no epoch":                    {"LORA", "num_epochs", "0.0", "must be more than 0"},
		"a type that is not listed":   {"OTHER", "x", "y", ""},
		"a value that is not a value": {"SFT", "max_steps", "", "must be a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := Check(tt.training, map[string]string{tt.name: tt.value})
			if tt.says == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Equal(t, tt.name, faults[0].Name)
			require.Contains(t, faults[0].Says, tt.says)
		})
	}
	require.Equal(t, []Fault{{"lr", "means the same as learning_rate: give one of them"}}, Check("SFT", map[string]string{"learning_rate": "1", "lr": "1"}))
}

// The list has all training types of the API, and each default is a valid value.
func TestListIsWhole(t *testing.T) {
	l, types := load()
	for number, training := range v1.TrainingType_Value_name {
		if number != 0 {
			require.NotEmpty(t, types[training], training)
		}
	}
	require.Len(t, types, len(v1.TrainingType_Value_name)-1)
	for _, library := range []string{"peft", "torch", "transformers", "trl"} {
		require.NotEmpty(t, l.Versions[library])
	}
	var defaults struct {
		Groups map[string]map[string]struct{ Default json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(names, &defaults))
	checked := 0
	for group, specs := range defaults.Groups {
		for name, d := range specs {
			text := string(d.Default)
			if text == "null" {
				continue
			}
			var plain string
			if json.Unmarshal(d.Default, &plain) == nil {
				text = plain
			}
			require.True(t, l.Groups[group][name].takes(name, text), "%s of %s is %s", name, group, text)
			checked++
		}
	}
	require.Greater(t, checked, 200)
	for alias, of := range l.Aliases {
		known := false
		for _, names := range types {
			_, ok := names[of]
			known = known || ok
		}
		require.True(t, known, "%s is another name of %s", alias, of)
	}
}

func TestNearest(t *testing.T) {
	require.Equal(t, "abc", nearest("abd", []string{"zzz", "abc"}))
	require.Empty(t, nearest("x", []string{"abcdef"}))
}

func FuzzCheck(f *testing.F) {
	f.Add("learning_rate", "1")
	f.Add("lora_target_modules", "[")
	_, types := load()
	for name := range maps.Keys(types["LORA"]) {
		f.Add(name, "1,2")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, fault := range Check("LORA", map[string]string{name: value}) {
			require.True(t, fault.Name == name && strings.TrimSpace(fault.Says) != "", fmt.Sprint(fault))
		}
	})
}
