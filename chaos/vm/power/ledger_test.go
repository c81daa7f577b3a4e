package power

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
)

// scribe is a ledger with one job of each kind, acknowledged and read.
func scribe(t *testing.T) (*fake, *procs.REST, *Ledger, *Verdict, map[Kind]*Job) {
	t.Helper()
	f, rest := newFake(t)
	v := NewVerdict()
	l := NewLedger(v)
	l.Begin(1, func(Event) {})
	jobs := map[Kind]*Job{}
	for _, kind := range []Kind{Waiting, Quick, Stubborn, Mortal, Steady} {
		j := &Job{Key: string(kind) + "-1", Kind: kind, Code: 7, GPUs: 1, Body: (&load{}).body(string(kind)+"-1", 1, "sh", "-c", "exit 7")}
		l.Submit(t.Context(), rest, 1, j)
		require.NotEmpty(t, j.ID)
		l.Read(t.Context(), rest, 1, j)
		jobs[kind] = j
	}
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	require.Zero(t, v.Broken(), v)
	return f, rest, l, v, jobs
}

// ended is how a job ends by itself.
func ended(code int) map[string]any {
	state, failure := "SUCCEEDED", ""
	if code != 0 {
		state, failure = "FAILED", "EXIT_NONZERO"
	}
	return map[string]any{"state": state, "error_type": failure, "exit_code": code, "finished_at": "then"}
}

var lost = map[string]any{"state": "FAILED", "error_type": "NODE_LOST", "exit_code": nil, "finished_at": "then"}

func TestLedger_seesWhatACutMustNotDo(t *testing.T) {
	for name, tc := range map[string]struct {
		// before happens in the first start and is read, after happens while it is dark.
		before, after func(f *fake, jobs map[Kind]*Job)
		broken        []Promise
	}{
		"nothing": {nil, nil, nil},
		"a job goes on": {nil, func(f *fake, jobs map[Kind]*Job) {
			f.set(jobs[Steady].ID, map[string]any{"state": "RUNNING", "attempt": 2})
		}, nil},
		"a job is lost":               {nil, func(f *fake, jobs map[Kind]*Job) { delete(f.jobs, jobs[Waiting].ID) }, []Promise{Missing}},
		"a job has another command":   {nil, func(f *fake, jobs map[Kind]*Job) { f.jobs[jobs[Waiting].ID]["command_config"] = map[string]any{} }, []Promise{Changed}},
		"a job goes back":             {nil, func(f *fake, jobs map[Kind]*Job) { f.jobs[jobs[Waiting].ID]["revision"] = 0 }, []Promise{WentBack}},
		"an attempt is forgotten":     {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Steady].ID, map[string]any{"attempt": 0}) }, []Promise{WentBack}},
		"a key makes a second job":    {nil, func(f *fake, jobs map[Kind]*Job) { delete(f.keys, jobs[Waiting].Key) }, []Promise{Doubled}},
		"an end stays":                {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, nil, nil},
		"an end is forgotten":         {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, map[string]any{"state": "RUNNING"}) }, []Promise{WentBack}},
		"an end becomes another":      {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost) }, []Promise{WentBack}},
		"a wrong exit code":           {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(8)) }, nil, []Promise{WrongEnd}},
		"success for a failure":       {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(0)) }, nil, []Promise{WrongEnd}},
		"lost by the cut":             {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost); f.set(jobs[Mortal].ID, lost) }, nil},
		"lost without a cut":          {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost) }, nil, []Promise{WrongEnd}},
		"lost though it is restarted": {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Stubborn].ID, lost) }, []Promise{WrongEnd}},
		"an end of what cannot end":   {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Mortal].ID, ended(7)) }, []Promise{WrongEnd}},
		"what waits has run":          {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Waiting].ID, ended(7)) }, []Promise{WrongEnd}},
	} {
		t.Run(name, func(t *testing.T) {
			f, rest, l, v, jobs := scribe(t)
			if tc.before != nil {
				f.tamper(func() { tc.before(f, jobs) })
			}
			require.NoError(t, l.ReadAll(t.Context(), rest, 1))
			if tc.after != nil {
				f.tamper(func() { tc.after(f, jobs) })
			}
			l.Begin(2, func(Event) {})
			require.NoError(t, l.ReadAll(t.Context(), rest, 1))
			for _, j := range jobs {
				if f.jobs[j.ID] != nil {
					l.Submit(t.Context(), rest, 1, j)
				}
			}
			l.CheckHistory()
			requireBroken(t, v, tc.broken...)
		})
	}
}

// requireBroken requires that these promises are broken, and no others.
func requireBroken(t *testing.T, v *Verdict, want ...Promise) {
	t.Helper()
	var got []Promise
	for _, p := range promises {
		if len(v.broken[p.name]) > 0 {
			got = append(got, p.name)
		}
	}
	if len(got) == 0 && len(want) == 0 {
		return
	}
	// A register that went back, or a job that is gone, cannot be explained by any order of the calls, either.
	if len(want) == 1 && (want[0] == Missing || want[0] == WrongEnd) {
		require.Contains(t, got, want[0], v)
		require.Subset(t, []Promise{want[0], WentBack}, got, v)
		return
	}
	require.Equal(t, want, got, v)
}

func TestLedger_cancelsStay(t *testing.T) {
	f, rest, l, v, jobs := scribe(t)
	l.Cancel(t.Context(), rest, 1, jobs[Waiting])
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	l.CheckHistory()
	requireBroken(t, v)
	f.tamper(func() { f.jobs[jobs[Waiting].ID]["state"] = "QUEUED" })
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	requireBroken(t, v, WentBack)
}

func TestLedger_anUnknownSubmitIsSentAgain(t *testing.T) {
	_, rest, l, v, _ := scribe(t)
	j := &Job{Key: "unsure", Kind: Waiting, Body: (&load{}).body("unsure", 0, "true")}
	dark := *rest
	dark.Base = "http://127.0.0.1:1"
	l.Submit(t.Context(), &dark, 2, j)
	require.Empty(t, j.ID)
	require.Same(t, j, l.takeUnsure())
	require.Nil(t, l.takeUnsure(), "one client sends it again")
	l.Submit(t.Context(), rest, 3, j)
	require.NotEmpty(t, j.ID)
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	l.CheckHistory()
	requireBroken(t, v)
}

func TestLedger_batches(t *testing.T) {
	f, rest, l, v, _ := scribe(t)
	var jobs []*Job
	for _, key := range []string{"b-1", "b-2", "b-3"} {
		jobs = append(jobs, &Job{Key: key, Kind: Waiting, Body: (&load{}).body(key, 0, "true")})
	}
	dark := *rest
	dark.Base = "http://127.0.0.1:1"
	l.SubmitBatch(t.Context(), &dark, 1, jobs)
	require.Len(t, l.unsure, 3)
	l.SubmitBatch(t.Context(), rest, 1, jobs)
	require.NotEmpty(t, jobs[2].ID)
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	requireBroken(t, v)
	f.tamper(func() { delete(f.jobs, jobs[1].ID) })
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	requireBroken(t, v, Missing)
}

func TestLedger_checkpointsStay(t *testing.T) {
	first := checkpoint{ID: "ckpt_1", JobID: "job_5", Attempt: 1, Step: 3, Path: "/shared/a", Digest: "d", Size: 9}
	second := checkpoint{ID: "ckpt_2", JobID: "job_5", Attempt: 1, Step: 6, Path: "/shared/b", Digest: "e", Size: 9}
	other := first
	other.Digest = "f"
	for name, tc := range map[string]struct {
		now    []checkpoint
		broken []Promise
	}{
		"another one": {[]checkpoint{second, first}, nil},
		"it is gone":  {[]checkpoint{second}, []Promise{Missing}},
		"it differs":  {[]checkpoint{other}, []Promise{Changed}},
	} {
		f, rest, l, v, _ := scribe(t)
		f.points = []checkpoint{first}
		require.NoError(t, l.ReadCheckpoints(t.Context(), rest, "job_5"), name)
		f.tamper(func() { f.points = tc.now })
		require.NoError(t, l.ReadCheckpoints(t.Context(), rest, "job_5"), name)
		require.Equal(t, tc.broken == nil, len(v.broken) == 0, name)
		requireBroken(t, v, tc.broken...)
	}
}

func TestLedger_aGPUStaysAsideUntilItsNodeIsEnabled(t *testing.T) {
	const broken = "Xid 79: GPU has fallen off the bus"
	f, rest, l, v, _ := scribe(t)
	see := func(health, reason string) {
		f.tamper(func() { f.health, f.reason = health, reason })
		_, err := l.ReadNodes(t.Context(), rest)
		require.NoError(t, err)
	}
	l.Breaking("n1", gpu{UUID: "gpu-1"})
	see("QUARANTINED", "driver does not answer")
	require.Len(t, l.brokenOf("n1", breaking), 1, "that passes by itself, and is something else")
	see("QUARANTINED", broken)
	require.Len(t, l.brokenOf("n1", aside), 1)
	require.NoError(t, l.Enable(t.Context(), rest, "n1"))
	see("QUARANTINED", broken)
	see(healthy, "")
	require.Len(t, l.brokenOf("n1", back), 1)
	requireBroken(t, v)
	see("QUARANTINED", broken)
	requireBroken(t, v, WentBack)

	f, rest, l, v, _ = scribe(t)
	l.Breaking("n1", gpu{UUID: "gpu-1"})
	see("QUARANTINED", broken)
	see(healthy, "")
	requireBroken(t, v, Missing)
}

func TestLedger_limitsAndTokensStay(t *testing.T) {
	f, rest, l, v, _ := scribe(t)
	verify := func() {
		require.NoError(t, errors.Join(l.CheckLimit(t.Context(), rest), l.CheckTokens(t.Context(), rest)))
	}
	verify()
	for range 3 {
		l.SetLimit(t.Context(), rest)
		l.Tokens(t.Context(), rest)
	}
	verify()
	requireBroken(t, v)
	f.tamper(func() { f.limit = 2 })
	verify()
	requireBroken(t, v, WentBack)

	f, rest, l, v, _ = scribe(t)
	l.SetLimit(t.Context(), rest)
	f.tamper(func() { f.limit = -1 })
	require.NoError(t, l.CheckLimit(t.Context(), rest))
	requireBroken(t, v, Missing)

	f, rest, l, v, _ = scribe(t)
	l.Tokens(t.Context(), rest)
	l.Tokens(t.Context(), rest) // which revokes the first
	f.tamper(func() { f.tokens["secret-tok_1"] = "tok_1" })
	require.NoError(t, l.CheckTokens(t.Context(), rest))
	requireBroken(t, v, WentBack)

	f, rest, l, v, _ = scribe(t)
	l.Tokens(t.Context(), rest)
	f.tamper(func() { clear(f.tokens) })
	require.NoError(t, l.CheckTokens(t.Context(), rest))
	requireBroken(t, v, Missing)
}

func TestOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"an answer":     {nil, "done"},
		"no":            {&procs.Error{HTTP: http.StatusConflict}, "refused"},
		"later":         {&procs.Error{HTTP: http.StatusTooManyRequests}, "unknown"},
		"nobody knows":  {&procs.Error{HTTP: http.StatusGatewayTimeout}, "unknown"},
		"it broke off":  {errors.New("EOF"), "unknown"},
		"it was hidden": {errors.Join(&procs.Error{HTTP: http.StatusNotFound}), "refused"},
	} {
		require.Equal(t, tc.want, []string{"done", "refused", "unknown"}[outcome(tc.err)], name)
	}
}

// A figure that is counted and not listed would never be told, and one that is not in the docs says nothing.
func TestFigures_areToldAndExplained(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/operate/powercut.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	counted := regexp.MustCompile(`\.Count\("(\w+)"`)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range counted.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	require.ElementsMatch(t, figures, slices.Collect(maps.Keys(found)))
	for _, figure := range figures {
		require.Contains(t, string(docs), "`"+figure+"`")
	}
	for _, p := range promises {
		require.Contains(t, string(docs), "`"+string(p.name)+"`")
	}
	for _, m := range moments {
		require.Contains(t, string(docs), "`"+m.name+"`")
	}
	for _, m := range Mutants {
		require.Contains(t, string(docs), "`"+m.Name+"`")
	}
}

func TestVerdict_saysWhatIsBroken(t *testing.T) {
	v := NewVerdict()
	for i, figure := range figures {
		v.Count(figure, i)
		v.Count(figure, 1)
	}
	require.Regexp(t, "^cuts=1 acknowledged=2 .* ready_p50_ms=22 missing=0 changed=0 went_back=0 doubled=0 torn=0 wrong_end=0 double_live=0 dead=0$", v.String())
	for range maxTold + 3 {
		v.Break(Torn, "page %d", 1)
	}
	require.Equal(t, maxTold+3, v.Broken())
	require.Contains(t, v.String(), " torn=23 ")
	var b strings.Builder
	v.Tell(&b)
	require.Contains(t, b.String(), "BROKEN  every file is whole: 23 times\n        page 1\n")
	require.Contains(t, b.String(), "and 3 more\n")
}
