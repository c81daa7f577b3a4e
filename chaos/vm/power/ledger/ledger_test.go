package ledger

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
)

// scribe makes a ledger with one job of each kind, acknowledged and read.
func scribe(t *testing.T) (*fake, *procs.REST, *Ledger, *result.Result, map[Kind]*Job) {
	t.Helper()
	f, rest := newFake(t)
	v := result.New()
	l := New(v)
	l.Begin(1, func(Event) {})
	jobs := map[Kind]*Job{}
	for _, kind := range []Kind{Waiting, Quick, Stubborn, Mortal, Steady} {
		j := &Job{Key: string(kind) + "-1", Kind: kind, Code: 7, GPUs: 1, Body: Body(0, string(kind)+"-1", 1, "sh", "-c", "exit 7")}
		l.Submit(t.Context(), rest, 1, j)
		require.NotEmpty(t, j.ID)
		l.Read(t.Context(), rest, 1, j)
		jobs[kind] = j
	}
	require.NoError(t, l.ReadAll(t.Context(), rest, 1))
	require.Zero(t, v.Broken(), v)
	return f, rest, l, v, jobs
}

// ended returns the fields of a job that ended by itself.
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
		// before happens in the first start and is read, after happens during the power cut.
		before, after func(f *fake, jobs map[Kind]*Job)
		broken        []result.Promise
	}{
		"nothing": {nil, nil, nil},
		"a job goes on": {nil, func(f *fake, jobs map[Kind]*Job) {
			f.set(jobs[Steady].ID, map[string]any{"state": "RUNNING", "attempt": 2})
		}, nil},
		"a job is lost":               {nil, func(f *fake, jobs map[Kind]*Job) { delete(f.jobs, jobs[Waiting].ID) }, []result.Promise{result.Missing}},
		"a job has another command":   {nil, func(f *fake, jobs map[Kind]*Job) { f.jobs[jobs[Waiting].ID]["command_config"] = map[string]any{} }, []result.Promise{result.Changed}},
		"a job goes back":             {nil, func(f *fake, jobs map[Kind]*Job) { f.jobs[jobs[Waiting].ID]["revision"] = 0 }, []result.Promise{result.WentBack}},
		"an attempt is forgotten":     {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Steady].ID, map[string]any{"attempt": 0}) }, []result.Promise{result.WentBack}},
		"a key makes a second job":    {nil, func(f *fake, jobs map[Kind]*Job) { delete(f.keys, jobs[Waiting].Key) }, []result.Promise{result.Doubled}},
		"an end stays":                {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, nil, nil},
		"an end is forgotten":         {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, map[string]any{"state": "RUNNING"}) }, []result.Promise{result.WentBack}},
		"an end becomes another":      {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(7)) }, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost) }, []result.Promise{result.WentBack}},
		"a wrong exit code":           {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(8)) }, nil, []result.Promise{result.WrongEnd}},
		"success for a failure":       {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, ended(0)) }, nil, []result.Promise{result.WrongEnd}},
		"lost by the cut":             {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost); f.set(jobs[Mortal].ID, lost) }, nil},
		"lost without a cut":          {func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Quick].ID, lost) }, nil, []result.Promise{result.WrongEnd}},
		"lost though it is restarted": {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Stubborn].ID, lost) }, []result.Promise{result.WrongEnd}},
		"an end of what cannot end":   {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Mortal].ID, ended(7)) }, []result.Promise{result.WrongEnd}},
		"what waits has run":          {nil, func(f *fake, jobs map[Kind]*Job) { f.set(jobs[Waiting].ID, ended(7)) }, []result.Promise{result.WrongEnd}},
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
func requireBroken(t *testing.T, v *result.Result, want ...result.Promise) {
	t.Helper()
	got := v.BrokenPromises()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	// If a register went back, or a job is gone, no order of the calls explains the history either.
	if len(want) == 1 && (want[0] == result.Missing || want[0] == result.WrongEnd) {
		require.Contains(t, got, want[0], v)
		require.Subset(t, []result.Promise{want[0], result.WentBack}, got, v)
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
	requireBroken(t, v, result.WentBack)
}

func TestLedger_anUnknownSubmitIsSentAgain(t *testing.T) {
	_, rest, l, v, _ := scribe(t)
	j := &Job{Key: "unsure", Kind: Waiting, Body: Body(0, "unsure", 0, "true")}
	dark := *rest
	dark.Base = "http://127.0.0.1:1"
	l.Submit(t.Context(), &dark, 2, j)
	require.Empty(t, j.ID)
	require.Same(t, j, l.TakeUnsure())
	require.Nil(t, l.TakeUnsure(), "one client sends it again")
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
		jobs = append(jobs, &Job{Key: key, Kind: Waiting, Body: Body(0, key, 0, "true")})
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
	requireBroken(t, v, result.Missing)
}

func TestLedger_checkpointsStay(t *testing.T) {
	first := Checkpoint{ID: "ckpt_1", JobID: "job_5", Attempt: 1, Step: 3, Path: "/shared/a", Digest: "d", Size: 9}
	second := Checkpoint{ID: "ckpt_2", JobID: "job_5", Attempt: 1, Step: 6, Path: "/shared/b", Digest: "e", Size: 9}
	other := first
	other.Digest = "f"
	for name, tc := range map[string]struct {
		now    []Checkpoint
		broken []result.Promise
	}{
		"another one": {[]Checkpoint{second, first}, nil},
		"it is gone":  {[]Checkpoint{second}, []result.Promise{result.Missing}},
		"it differs":  {[]Checkpoint{other}, []result.Promise{result.Changed}},
	} {
		f, rest, l, v, _ := scribe(t)
		f.points = []Checkpoint{first}
		require.NoError(t, l.ReadCheckpoints(t.Context(), rest, "job_5"), name)
		f.tamper(func() { f.points = tc.now })
		require.NoError(t, l.ReadCheckpoints(t.Context(), rest, "job_5"), name)
		require.Equal(t, tc.broken == nil, v.Broken() == 0, name)
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
	require.Len(t, l.BrokenOf("n1", Breaking), 1, "that passes by itself, and is something else")
	see("QUARANTINED", broken)
	require.Len(t, l.BrokenOf("n1", Aside), 1)
	require.NoError(t, l.Enable(t.Context(), rest, "n1"))
	see("QUARANTINED", broken)
	see(Healthy, "")
	require.Len(t, l.BrokenOf("n1", back), 1)
	requireBroken(t, v)
	see("QUARANTINED", broken)
	requireBroken(t, v, result.WentBack)

	f, rest, l, v, _ = scribe(t)
	l.Breaking("n1", gpu{UUID: "gpu-1"})
	see("QUARANTINED", broken)
	see(Healthy, "")
	requireBroken(t, v, result.Missing)
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
	requireBroken(t, v, result.WentBack)

	f, rest, l, v, _ = scribe(t)
	l.SetLimit(t.Context(), rest)
	f.tamper(func() { f.limit = -1 })
	require.NoError(t, l.CheckLimit(t.Context(), rest))
	requireBroken(t, v, result.Missing)

	f, rest, l, v, _ = scribe(t)
	l.Tokens(t.Context(), rest)
	l.Tokens(t.Context(), rest) // which revokes the first
	f.tamper(func() { f.tokens["secret-tok_1"] = "tok_1" })
	require.NoError(t, l.CheckTokens(t.Context(), rest))
	requireBroken(t, v, result.WentBack)

	f, rest, l, v, _ = scribe(t)
	l.Tokens(t.Context(), rest)
	f.tamper(func() { clear(f.tokens) })
	require.NoError(t, l.CheckTokens(t.Context(), rest))
	requireBroken(t, v, result.Missing)
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
