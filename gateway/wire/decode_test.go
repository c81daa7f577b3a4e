package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

const trainingBody = `{
  "name": "support-lora-v3 \u00e9",
  "training_config": {"training_type": "LORA", "base_model": {"model_id": "meta/x", "trust_remote_code": true, "model_kwargs": {"a": "b"}},
    "framework": {"type": "FSDP", "config": {}, "distributed": {"world_size": 8, "backend": "nccl"}},
    "hyperparameters": {"lora_r": "16"}, "environment": {"A": "1"}, "max_retries": 0, "priority": 7},
  "data_config": {"sources": [{"path": "scaidrive://a/b", "columns": ["x", "y"], "filters": {"lang": ["en", null, 1.5, {"deep": true}]}}, {"path": "p"}],
    "preprocess": {}, "max_seq_length": 2048, "validation_split": 0.05, "pin_memory": false, "seed": -3},
  "resource_config": {"gpu_count": 8, "gpu_type": "H100", "gpu_fraction": 1e-1, "node_selector": {"zone": "a"}, "topology": "nvlink"},
  "output_config": {"output_dir": "/out", "checkpoint_interval_steps": 100},
  "scheduling_config": {"queue": "default", "retry_on": ["node_lost", "exit"], "preemptible": true, "not_before": "2026-01-31T08:00:00.5+01:00",
    "grace_period_seconds": 0, "dependencies": [{"job_id": "job_1", "condition": "any"}], "array": {"start": 0, "end": 9}},
  "labels": {"team": "support"}
}`

func TestDecode_agreesWithProtojsonOnWhatIsOfTheSchema(t *testing.T) {
	for name, body := range map[string]string{
		"training": trainingBody, "command": string(submitBody), "nothing": "{}", "spaced": " \n{ \"name\"\t:\r\n \"x\" } ",
		"null is not given": `{"name":null,"labels":null,"resource_config":null,"scheduling_config":{"priority":null,"retry_on":null}}`,
		"escapes":           `{"name":"\"\\\/\b\f\n\r\t\u00e9\ud83c\udf89","labels":{"\u0061":"é🎉"}}`,
		"whole floats":      `{"resource_config":{"gpu_count":8.0,"cpu_count":1e2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, want := &v1.SubmitJobRequest{}, &v1.SubmitJobRequest{}
			faults, ignored := Decode([]byte(body), got)
			require.Empty(t, faults)
			require.Empty(t, ignored)
			require.NoError(t, protojson.Unmarshal([]byte(body), want))
			require.True(t, proto.Equal(want, got), "want %v\ngot  %v", want, got)
		})
	}
}

func TestDecode_namesEveryFault(t *testing.T) {
	cases := map[string]struct {
		body string
		want []Fault
	}{
		"unknown enum": {
			`{"training_config":{"training_type":"LORRA"}}`,
			[]Fault{{"training_config.training_type", `must be one of SFT, LORA, QLORA, DPO, RLHF, CONTINUED_PRETRAIN, FULL_FINETUNE, not "LORRA"`}},
		},
		"UNSPECIFIED is no value": {
			`{"training_config":{"framework":{"type":"UNSPECIFIED"}}}`,
			[]Fault{{"training_config.framework.type", `must be one of HF_TRAINER, DEEPSPEED, FSDP, MEGATRON, CUSTOM, not "UNSPECIFIED"`}},
		},
		"an enum is not a number": {
			`{"training_config":{"training_type":2}}`,
			[]Fault{{"training_config.training_type", "must be one of SFT, LORA, QLORA, DPO, RLHF, CONTINUED_PRETRAIN, FULL_FINETUNE, not a number"}},
		},
		"several at once": {
			`{"name":7,"resource_config":{"gpu_count":"8","gpu_type":["H100"],"gpu_fraction":true},"labels":[]}`,
			[]Fault{
				{"name", `must be a string, not a number; write "7"`},
				{"resource_config.gpu_count", "must be a whole number, not a string"},
				{"resource_config.gpu_type", "must be a string, not a list"},
				{"resource_config.gpu_fraction", "must be a number, not true or false"},
				{"labels", "must be an object, not a list"},
			},
		},
		"fractions of a whole number": {`{"resource_config":{"gpu_count":1.5}}`, []Fault{{"resource_config.gpu_count", "must be a whole number, not 1.5"}}},
		"out of range": {
			`{"resource_config":{"gpu_count":3000000000,"cpu_count":1e300,"memory_mb":99999999999999999999,"gpu_fraction":1e999}}`,
			[]Fault{
				{"resource_config.gpu_count", "is out of range: at most 2147483647"},
				{"resource_config.cpu_count", "is out of range"},
				{"resource_config.memory_mb", "is out of range"},
				{"resource_config.gpu_fraction", "is out of range"},
			},
		},
		"a list element": {
			`{"command_config":{"argv":["a",1,null]}}`,
			[]Fault{{"command_config.argv[1]", `must be a string, not a number; write "1"`}, {"command_config.argv[2]", "must be a string, not null"}},
		},
		"one for a list": {
			`{"command_config":{"argv":"a \"b\""},"data_config":{"sources":"p"}}`,
			[]Fault{{"command_config.argv", `must be a list, not a string; write ["a \"b\""]`}, {"data_config.sources", "must be a list, not a string"}},
		},
		"an object in a list": {`{"data_config":{"sources":[{"path":"p"},{"path":false}]}}`, []Fault{{"data_config.sources[1].path", "must be a string, not true or false"}}},
		"a map value":         {`{"training_config":{"hyperparameters":{"lr":0.1}}}`, []Fault{{"training_config.hyperparameters.lr", `must be a string, not a number; write "0.1"`}}},
		"a time": {
			`{"scheduling_config":{"not_before":"tomorrow"}}`,
			[]Fault{{"scheduling_config.not_before", `must be a time in RFC 3339, such as 2026-01-31T08:00:00Z, not "tomorrow"`}},
		},
		"unknown fields where the schema is ours": {
			`{"nmae":"x","resource_config":{"gpus":1,"zebra":2},"scheduling_config":{"max_retrys":1},"command_config":{"cmd":"x"},` +
				`"scheduling_config ":{}}`,
			[]Fault{
				{"nmae", "unknown field; did you mean name?"},
				{"resource_config.gpus", "unknown field; did you mean gpu_count?"},
				{"resource_config.zebra", "unknown field"},
				{"scheduling_config.max_retrys", "unknown field; did you mean max_retries?"},
				{"command_config.cmd", "unknown field; did you mean cwd?"},
				{"scheduling_config ", "unknown field; did you mean scheduling_config?"},
			},
		},
		"camel case is not ours":  {`{"trainingConfig":{}}`, []Fault{{"trainingConfig", "unknown field; did you mean training_config?"}}},
		"given twice":             {`{"name":"a","name":"b"}`, []Fault{{"name", "is given twice"}}},
		"a label given twice":     {`{"labels":{"a":"1","\u0061":"2"}}`, []Fault{{"labels.a", "is given twice"}}},
		"not an object":           {`[1]`, []Fault{{"", "must be an object, not a list"}}},
		"a string":                {`"x"`, []Fault{{"", "must be an object, not a string"}}},
		"empty":                   {"", []Fault{{"", "the body is empty; it must be a JSON object"}}},
		"malformed, with a place": {"{\n  \"name\": }", []Fault{{"", "malformed JSON at line 2, column 11: invalid character '}' looking for beginning of value"}}},
		"cut off":                 {`{"name":"x`, []Fault{{"", "malformed JSON at line 1, column 10: unexpected end of JSON input"}}},
		"too deep": {
			`{"data_config":{"preprocess":{"a":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}}}`,
			[]Fault{{"data_config.preprocess", "is nested more than 64 levels deep"}},
		},
		// Each entry takes two or three bytes in the body, and a hundred in memory.
		"a list without end": {
			`{"command_config":{"argv":["a"` + strings.Repeat(`,""`, maxEntries+5) + `]}}`, []Fault{{"command_config.argv", "has more than 10000 entries"}},
		},
		"messages without end": {
			`{"data_config":{"sources":[{}` + strings.Repeat(`,{}`, maxMessages+5) + `]}}`, []Fault{{"data_config.sources", "has more than 2000 entries"}},
		},
		"a map without end": {
			`{"labels":{` + numbered(maxEntries+5) + `}}`, []Fault{{"labels", "has more than 10000 entries"}},
		},
		"values without end": {
			`{"data_config":{"preprocess":{"a":[0` + strings.Repeat(`,0`, maxEntries) + `]}}}`, []Fault{{"data_config.preprocess", "has more than 10000 values"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			faults, _ := Decode([]byte(tc.body), &v1.SubmitJobRequest{})
			require.Equal(t, tc.want, faults)
		})
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":""`, i)
	}
	return b.String()[1:]
}

func TestDecode_unknownFieldsOfWhatWasPublishedInPartAreIgnoredAndNamed(t *testing.T) {
	request := &v1.SubmitJobRequest{}
	faults, ignored := Decode([]byte(`{"name":"x","training_config":{"mixup":{"name":1},"base_model":{"model_id":"m","lora":[1]}},`+
		`"data_config":{"sources":[{"path":"p","shuffle":true}],"tail":null},"output_config":{"format":"safetensors"}}`), request)
	require.Empty(t, faults)
	require.Equal(t, []string{
		"training_config.mixup", "training_config.base_model.lora", "data_config.sources[0].shuffle", "data_config.tail", "output_config.format",
	}, ignored)
	require.Equal(t, "m", request.GetTrainingConfig().GetBaseModel().GetModelId())
}

func TestDecode_fieldsThatThePathGives(t *testing.T) {
	faults, _ := Decode([]byte(`{"job_id":"job_2","reason":"r"}`), &v1.CancelJobRequest{}, "job_id")
	require.Equal(t, []Fault{{"job_id", "unknown field"}}, faults)
}

func TestDecode_faultsAreBounded(t *testing.T) {
	faults, _ := Decode([]byte(`{"command_config":{"argv":[`+strings.Repeat("1,", 1000)+`1]}}`), &v1.SubmitJobRequest{})
	require.Len(t, faults, MaxFaults)
	_, ignored := Decode([]byte(`{"data_config":{`+strings.Repeat(`"x":1,`, 1000)+`"y":1}}`), &v1.SubmitJobRequest{})
	require.Len(t, ignored, MaxFaults)
}

// No body causes a panic, and every accepted message can be encoded.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(trainingBody))
	f.Add(submitBody)
	f.Add([]byte(`{"name":"\ud800","labels":{"":""},"data_config":{"preprocess":{"a":[{}]}}}`))
	f.Add([]byte("{\"name\":\"\xff\"}"))
	f.Add([]byte(`{"jobs":[{"name":"x"},3,null],"idempotency_keys":["k"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		request := &v1.SubmitJobRequest{}
		faults, _ := Decode(body, request)
		if len(faults) == 0 {
			wire, err := proto.Marshal(request)
			require.NoError(t, err)
			require.NoError(t, proto.Unmarshal(wire, &v1.SubmitJobRequest{}))
			again := &v1.SubmitJobRequest{}
			faults, _ = Decode(Append(nil, request, false), again)
			require.Empty(t, faults, "what is shown can be sent")
		}
		Decode(body, &v1.RetryJobRequest{}, "job_id")
		_, _ = DecodeJob(body, &v1.SubmitJobRequest{})
		_, _ = DecodeBatch(body, 10)
	})
}
