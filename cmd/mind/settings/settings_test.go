package settings

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

type target struct {
	Name   string
	Count  int
	Bytes  int64
	Wait   time.Duration
	On     bool
	Join   []string
	Labels map[string]string
}

func keysOf(t *target) []Key {
	return []Key{
		{Name: "name", Help: "a name", Into: &t.Name},
		{Name: "count_of_it", Help: "a number", Into: &t.Count},
		{Name: "bytes", Help: "a size", Into: &t.Bytes},
		{Name: "wait", Help: "a duration", Into: &t.Wait},
		{Name: "on", Help: "a switch", Into: &t.On},
		{Name: "join", Help: "a list", Into: &t.Join},
		{Name: "labels", Help: "pairs", Into: &t.Labels},
	}
}

func load(t *testing.T, file string, env map[string]string, args ...string) (target, error) {
	t.Helper()
	var into target
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	set := Bind(fs, keysOf(&into))
	require.NoError(t, fs.Parse(args))
	path := ""
	if file != "" {
		path = filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	}
	err := set.Load(path, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	return into, err
}

func TestLoad_flagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	file := "name: file\ncount_of_it: 1\n"
	env := map[string]string{"MIND_NAME": "variable", "MIND_COUNT_OF_IT": "2"}

	got, err := load(t, file, nil)
	require.NoError(t, err)
	require.Equal(t, target{Name: "file", Count: 1}, got)

	got, err = load(t, file, env)
	require.NoError(t, err)
	require.Equal(t, target{Name: "variable", Count: 2}, got)

	got, err = load(t, file, env, "--name", "flag", "--count-of-it=3")
	require.NoError(t, err)
	require.Equal(t, target{Name: "flag", Count: 3}, got)

	got, err = load(t, file, env, "--name", "")
	require.NoError(t, err)
	require.Empty(t, got.Name, "an empty flag is a flag that was given")
}

func TestLoad_everyTypeInEveryForm(t *testing.T) {
	want := target{
		Name: "n", Count: 4, Bytes: 1 << 40, Wait: 90 * time.Second, On: true,
		Join: []string{"a:1", "b:2"}, Labels: map[string]string{"zone": "x", "rack": "7"},
	}
	got, err := load(t, "name: n\ncount_of_it: 4\nbytes: 1099511627776\nwait: 1m30s\non: true\njoin: [a:1, b:2]\nlabels: {zone: x, rack: '7'}\n", nil)
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = load(t, "", map[string]string{
		"MIND_NAME": "n", "MIND_COUNT_OF_IT": "4", "MIND_BYTES": "1099511627776", "MIND_WAIT": "90s",
		"MIND_ON": "true", "MIND_JOIN": "a:1, b:2", "MIND_LABELS": "zone=x,rack=7",
	})
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = load(t, "", nil, "--name=n", "--count-of-it=4", "--bytes=1099511627776", "--wait=90s", "--on", "--join=a:1,b:2", "--labels=zone=x,rack=7")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestLoad_faultsNameThePlace(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  map[string]string
		args []string
		want string
	}{
		"unknown key":           {file: "name: n\nnope: 1\n", want: `c.yaml:2: there is no key "nope"`},
		"dash for underscore":   {file: "count-of-it: 1\n", want: `did you mean "count_of_it"?`},
		"twice":                 {file: "name: a\nname: b\n", want: "c.yaml:2: \"name\" is there twice"},
		"not a number":          {file: "count_of_it: many\n", want: `c.yaml:1: count_of_it: "many" is not a whole number`},
		"not a duration":        {env: map[string]string{"MIND_WAIT": "10"}, want: `MIND_WAIT: "10" is not a duration`},
		"flag":                  {args: []string{"--on=perhaps"}, want: `--on: "perhaps" is neither true nor false`},
		"list where one wanted": {file: "name: [a]\n", want: "expected one string"},
		"pairs":                 {args: []string{"--labels=zone"}, want: `"zone" is not of the form KEY=VALUE`},
		"two documents":         {file: "name: a\n---\nname: b\n", want: "c.yaml:2: a second document begins here"},
		"not a mapping":         {file: "- a\n", want: "expected keys with values"},
		"not yaml":              {file: "name: [\n", want: "c.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.file, c.env, c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLoad_allFaultsAtOnce(t *testing.T) {
	_, err := load(t, "nope: 1\ncount_of_it: many\n", map[string]string{"MIND_WAIT": "x"})
	require.ErrorContains(t, err, "nope")
	require.ErrorContains(t, err, "many")
	require.ErrorContains(t, err, "MIND_WAIT")
}

func TestLoad_missingFileAndEmptyFile(t *testing.T) {
	var into target
	set := Bind(pflag.NewFlagSet("test", pflag.ContinueOnError), keysOf(&into))
	require.ErrorContains(t, set.Load(filepath.Join(t.TempDir(), "none.yaml"), os.LookupEnv), "none.yaml")
	_, err := load(t, "# nothing\n", nil)
	require.NoError(t, err)
}
