package machine_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mindcoordinator/mind/flow/machine"
)

// world gives the effects of an execution their results. It chooses them by its seed and by the open waits, and by nothing else, so
// two executions with the same waits get the same results in the same order.
type world struct {
	t       *rapid.T
	program *machine.Program
	seed    int
	limits  machine.Limits
	// failing percent of the first answers of a step are errors; the later ones succeed.
	failing int
	// cancelAt is the number of the result before which the execution is canceled; 0: never.
	cancelAt int
	// several results may come at once.
	several bool

	frame []byte
	open  map[uint32]machine.Effect
	used  map[uint32]bool
	asked map[string]int
	// succeeded counts the results of each step that were no errors.
	succeeded map[string]int
	records   []string
	// states have the status and the open waits at each stop.
	states []string
	given  int
	out    *machine.Output
}

func newWorld(t *rapid.T, p *machine.Program, seed int) *world {
	w := &world{
		t: t, program: p, seed: seed, limits: machine.Limits{Fuel: 100_000, Blocks: 2_000, Effects: 1_000}, failing: 30,
		open: map[uint32]machine.Effect{}, used: map[uint32]bool{}, asked: map[string]int{}, succeeded: map[string]int{},
	}
	var err error
	w.frame, err = p.Start(map[string]any{"k": int64(seed % 7)}, nil)
	require.NoError(t, err)
	return w
}

func (w *world) hash(parts ...any) int {
	h := fnv.New32a()
	fmt.Fprint(h, append([]any{w.seed}, parts...)...)
	return int(h.Sum32() >> 1)
}

// advance goes on until the execution waits or is over.
func (w *world) advance(in machine.Input) {
	for {
		before := slices.Clone(w.frame)
		out, err := w.program.Advance(w.frame, in, w.limits)
		require.NoError(w.t, err)
		twin, err := w.program.Advance(before, in, w.limits)
		require.NoError(w.t, err)
		require.Equal(w.t, out, twin, "an Advance is deterministic")
		w.frame, w.out, in = out.Frame, out, machine.Input{}
		for _, e := range out.Effects {
			if e.Kind == machine.Cancel {
				require.Contains(w.t, w.open, e.Wait, "only an open wait is given up")
				delete(w.open, e.Wait)
				continue
			}
			require.False(w.t, w.used[e.Wait], "a wait is used once")
			w.used[e.Wait] = true
			w.open[e.Wait] = e
		}
		for _, r := range out.Records {
			w.records = append(w.records, fmt.Sprint(r.Kind, r.Path, r.Attempt, r.Name, r.Value, r.Err))
		}
		if out.Status != machine.More {
			break
		}
	}
	state := fmt.Sprint(w.out.Status)
	for _, wait := range slices.Sorted(maps.Keys(w.open)) {
		state += fmt.Sprintf(" %d:%s", wait, w.open[wait].Path)
	}
	w.states = append(w.states, state)
	if w.out.Status == machine.Waiting {
		require.NotEmpty(w.t, w.open, "every wait has a waker")
		idle, err := w.program.Advance(w.frame, machine.Input{}, w.limits)
		require.NoError(w.t, err)
		require.Equal(w.t, w.frame, idle.Frame, "nothing goes on without a result, and a frame that is read is written as it was")
		require.Empty(w.t, idle.Effects)
		require.Empty(w.t, idle.Records)
	} else {
		require.Empty(w.t, w.open, "an execution that is over waits for nothing")
	}
}

// live gives results until the execution is over.
func (w *world) live() *machine.Output {
	w.advance(machine.Input{})
	for w.out.Status == machine.Waiting {
		w.given++
		require.Less(w.t, w.given, 10_000, "it ends")
		if w.given == w.cancelAt {
			w.advance(machine.Input{Cancel: true})
			continue
		}
		waits := slices.SortedFunc(maps.Keys(w.open), func(a, b uint32) int { return w.hash("order", w.given, a) - w.hash("order", w.given, b) })
		if n := w.hash("several", w.given) % 5; !w.several {
			waits = waits[:1]
		} else if n > 0 {
			waits = waits[:min(len(waits), n)]
		}
		results := map[uint32]machine.Result{}
		for _, wait := range waits {
			results[wait] = w.answer(w.open[wait])
			if results[wait].Err == nil {
				w.succeeded[w.open[wait].Path]++
			}
			delete(w.open, wait)
		}
		w.advance(machine.Input{Results: results})
	}
	return w.out
}

func (w *world) answer(e machine.Effect) machine.Result {
	key := fmt.Sprint(e.Kind, e.Path)
	w.asked[key]++
	switch {
	case e.Kind == machine.Timer:
		return machine.Result{}
	case e.Kind == machine.Ask && e.Question.Type == "failure":
		return machine.Result{Value: map[string]any{"resolution": e.Question.Options[w.hash("option", e.Path, w.asked[key])%3].ID}}
	case w.asked[key] <= 2 && w.hash("fails", e.Path, w.asked[key])%100 < w.failing:
		return machine.Result{Err: &machine.Error{Code: "WORLD", Message: key, Retryable: w.hash("again", e.Path)%2 == 0}}
	case e.Kind == machine.Ask:
		return machine.Result{Value: map[string]any{"resolution": e.Question.Options[w.hash("option", e.Path)%2].ID}}
	}
	return machine.Result{Value: int64(w.hash("value", e.Path) % 100)}
}

func TestAnyProgram_isTheSameHoweverFuelCutsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawing{T: t}
		p := d.program()
		seed, cancelAt := d.number(0, 1000), 0
		if d.chance(30) {
			cancelAt = d.number(1, 6)
		}
		whole, cut := newWorld(t, p, seed), newWorld(t, p, seed)
		whole.cancelAt, cut.cancelAt = cancelAt, cancelAt
		whole.several, cut.several = true, true
		cut.limits.Fuel, cut.limits.Effects = int64(d.number(30, 60)), d.number(1, 4)
		a, b := whole.live(), cut.live()
		require.Equal(t, whole.records, cut.records)
		require.Equal(t, whole.states, cut.states)
		require.Equal(t, a.Value, b.Value)
		require.Equal(t, a.Err, b.Err)
	})
}

// A failure that people retry by hand leaves no trace: the output is that of an execution in which nothing failed, and no step that
// was done is done again.
func TestAnyCalmProgram_endsTheSameAfterRetriesByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawing{T: t, calm: true}
		p := d.program()
		seed := d.number(0, 1000)
		fine, torn := newWorld(t, p, seed), newWorld(t, p, seed)
		fine.failing = 0
		want := fine.live()
		require.Equal(t, machine.Completed, want.Status, "%v", want.Err)
		got := torn.live()
		for tries := 0; got.Status == machine.Failed; tries++ {
			require.Less(t, tries, 500)
			frame, err := p.Retry(torn.frame, "", nil)
			require.NoError(t, err)
			torn.frame = frame
			got = torn.live()
		}
		require.Equal(t, want.Value, got.Value)
		require.Equal(t, fine.succeeded, torn.succeeded)
	})
}

// From any step that an execution is retried from, it ends, and leaves nothing behind.
func TestAnyProgram_canBeRetriedFromAnyStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawing{T: t}
		p := d.program()
		w := newWorld(t, p, d.number(0, 1000))
		for range 4 {
			if w.live().Status != machine.Failed {
				return
			}
			from := ""
			if d.chance(70) {
				from = fmt.Sprint(rapid.SampledFrom([]string{"r", "j", "w", "f", "p", "i", "t", "q"}).Draw(t, "kind"), d.number(1, d.ids))
			}
			frame, err := p.Retry(w.frame, from, nil)
			if err != nil {
				require.ErrorContains(t, err, "the execution has not reached a step")
				frame, err = p.Retry(w.frame, "", nil)
				require.NoError(t, err)
			}
			w.frame = frame
		}
	})
}

// Two branches go on in the same Advance, and fuel ends within the first: the second has its turn after it, as without a cut.
func TestFuel_keepsTheOrderOfBranches(t *testing.T) {
	grow := `{"kind":"rigid","id":"%s","statements":[{"kind":"assign","name":"n","value":"n * 2 + %d"}]}`
	branch := func(name string, step int) string {
		return sprintf(`{"name":"%s","body":[{"kind":"compute","id":"j%s","action":"job","spec":{}},`+grow+`,`+grow+`,`+grow+`]}`,
			name, name, name+"1", step, name+"2", step, name+"3", step)
	}
	source := `{"schema_version":"0.1","name":"p","variables":[{"name":"n","default":0}],"flows":[{"name":"main","body":[
		{"kind":"parallel","id":"both","branches":[` + branch("a", 1) + `,` + branch("b", 0) + `]},
		{"kind":"rigid","id":"end","statements":[{"kind":"return","value":"n"}]}]}]}`
	var whole []string
	for _, fuel := range []int64{100_000, 10, 20, 30} {
		p := beginModule(t, source, nil)
		p.limits.Fuel = fuel
		results := map[uint32]machine.Result{p.wait("ja"): {}, p.wait("jb"): {}}
		clear(p.open)
		p.advance(machine.Input{Results: results})
		p.completed(7 * 8)
		if whole == nil {
			whole = p.said
		}
		require.Equal(t, whole, p.said)
	}
}
