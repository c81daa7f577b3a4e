package launcher

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

func TestExpand(t *testing.T) {
	values := Values{
		Texts: map[string]string{Script: "/x y.py", NNodes: "2", Model: "{nnodes}"},
		Lists: map[string][]string{ScriptCommand: {"python3", "/x y.py"}, Hyperparams: nil},
	}
	for name, tt := range map[string]struct {
		argv, want []string
		fails      string
	}{
		"texts":                      {[]string{"run", "--n={nnodes}", "{script}:{script}"}, []string{"run", "--n=2", "/x y.py:/x y.py"}, ""},
		"a list":                     {[]string{"{script_command}", "a"}, []string{"python3", "/x y.py", "a"}, ""},
		"an empty list":              {[]string{"run", "{hyperparameters}"}, []string{"run"}, ""},
		"nothing":                    {[]string{"run", "{resume_from}"}, []string{"run", ""}, ""},
		"a brace":                    {[]string{`{{"a": {{{nnodes}}`, "}", "{{nnodes}"}, []string{`{"a": {2}`, "}", "{nnodes}"}, ""},
		"what is put in is not read": {[]string{"{model}"}, []string{"{nnodes}"}, ""},
		"an unknown one":             {[]string{"a{nope}"}, nil, "there is no placeholder {nope}"},
		"an unknown one alone":       {[]string{"{nope}"}, nil, "there is no placeholder {nope}"},
		"an empty one":               {[]string{"{}"}, nil, "there is no placeholder {}"},
		"unclosed":                   {[]string{"a{script"}, nil, "unclosed"},
		"a list in a text":           {[]string{"-x{script_command}"}, nil, "whole argument"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Expand(tt.argv, values)
			if tt.fails != "" {
				require.ErrorContains(t, err, tt.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func FuzzExpandText(f *testing.F) {
	for _, s := range []string{"{script}", "{{", "}", "{", "a{{b}}c{nnodes}", "{script_command}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// A text without braces expands to itself, and a text that expands does so with any values.
		got, err := ExpandText(text, Values{})
		if !strings.Contains(text, "{") {
			require.NoError(t, err)
			require.Equal(t, text, got)
		}
		_, again := ExpandText(text, Values{Texts: map[string]string{Script: "{"}})
		require.Equal(t, err == nil, again == nil)
	})
}

func TestCheck(t *testing.T) {
	for _, framework := range Frameworks {
		l := Builtin(framework)
		require.NotNil(t, l, framework)
		require.NoError(t, Check(l))
		require.True(t, l.GetBuiltin())
		require.True(t, slices.IsSorted(l.GetHyperparameters()))
		l.Argv[0] = "changed"
		require.NotEqual(t, "changed", Builtin(framework).GetArgv()[0], "it is the caller's own")
	}
	require.Nil(t, Builtin("JAX"))
	good := &v1.Launcher{Framework: "CUSTOM", Argv: []string{"run", "{config}"}}
	require.NoError(t, Check(good))
	for name, tt := range map[string]struct {
		change      func(*v1.Launcher)
		field, says string
	}{
		"framework":      {func(l *v1.Launcher) { l.Framework = "custom" }, "framework", "they are HF_TRAINER"},
		"no argv":        {func(l *v1.Launcher) { l.Argv = nil }, "argv", "is empty"},
		"no program":     {func(l *v1.Launcher) { l.Argv[0] = "" }, "argv[0]", "is the program"},
		"maybe nothing":  {func(l *v1.Launcher) { l.Argv[0] = "{hyperparameters}" }, "argv[0]", "whole argument"},
		"placeholder":    {func(l *v1.Launcher) { l.DistributedArgv = []string{"a", "{b}"} }, "distributed_argv[1]", "no placeholder {b}"},
		"NUL":            {func(l *v1.Launcher) { l.Argv[1] = "\x00" }, "argv[1]", "NUL"},
		"many":           {func(l *v1.Launcher) { l.Argv = slices.Repeat([]string{"a"}, 257) }, "argv", "257 elements"},
		"long":           {func(l *v1.Launcher) { l.Argv[1] = strings.Repeat("x", 4097) }, "argv[1]", "4097 bytes"},
		"large":          {func(l *v1.Launcher) { l.Argv = slices.Repeat([]string{strings.Repeat("x", 4096)}, 9) }, "launcher", "put long texts into a script"},
		"variable":       {func(l *v1.Launcher) { l.Environment = map[string]string{"A=": ""} }, "environment", "not a valid name"},
		"value":          {func(l *v1.Launcher) { l.Environment = map[string]string{"A": "{b}"} }, "environment.A", "no placeholder"},
		"hyperparameter": {func(l *v1.Launcher) { l.Hyperparameters = []string{"a b"} }, "hyperparameters", "not a valid name"},
		"training type":  {func(l *v1.Launcher) { l.TrainingTypes = []string{"UNSPECIFIED"} }, "training_types", "not one of SFT"},
	} {
		t.Run(name, func(t *testing.T) {
			l := proto.CloneOf(good)
			tt.change(l)
			var fault *Fault
			require.ErrorAs(t, Check(l), &fault)
			require.Equal(t, tt.field, fault.Field)
			require.Contains(t, fault.Message, tt.says)
		})
	}
}

func TestFor(t *testing.T) {
	training := func(kind v1.FrameworkType_Value, gpus int32, d *v1.Distributed) *v1.SubmitJobRequest {
		return &v1.SubmitJobRequest{
			TrainingConfig: &v1.TrainingConfig{Framework: &v1.Framework{Type: kind, Distributed: d}},
			ResourceConfig: &v1.ResourceConfig{GpuCount: gpus},
		}
	}
	for name, tt := range map[string]struct {
		job         *v1.SubmitJobRequest
		framework   string
		distributed bool
	}{
		"a command":                  {&v1.SubmitJobRequest{CommandConfig: &v1.CommandConfig{}}, "", false},
		"nothing":                    {&v1.SubmitJobRequest{}, "", false},
		"an evaluation":              {&v1.SubmitJobRequest{EvaluationConfig: &v1.EvaluationConfig{}}, "EVALUATION", false},
		"one GPU":                    {training(v1.FrameworkType_FSDP, 1, nil), "FSDP", false},
		"two GPUs":                   {training(v1.FrameworkType_FSDP, 2, nil), "FSDP", true},
		"one GPU, distributed":       {training(v1.FrameworkType_HF_TRAINER, 1, &v1.Distributed{}), "HF_TRAINER", true},
		"a script on GPUs":           {training(v1.FrameworkType_CUSTOM, 8, nil), "CUSTOM", false},
		"a script that is told more": {training(v1.FrameworkType_CUSTOM, 1, &v1.Distributed{}), "CUSTOM", true},
	} {
		t.Run(name, func(t *testing.T) {
			framework, distributed := For(tt.job)
			require.Equal(t, tt.framework, framework)
			require.Equal(t, tt.distributed, distributed)
		})
	}
}

// The page must list all placeholders, in the same words.
func TestPlaceholders_areDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/launchers.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| placeholder | stands for |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, p := range Placeholders {
		says := p.Says
		if p.List {
			says += " (list)"
		}
		want = append(want, "| `{"+p.Name+"}` | "+says+" |")
	}
	require.Equal(t, strings.Join(want, "\n"), table)
	require.True(t, slices.IsSortedFunc(Placeholders, func(a, b Placeholder) int { return strings.Compare(a.Name, b.Name) }))
	for _, framework := range Frameworks {
		require.Contains(t, string(page), "`"+framework+"`")
	}
}
