package checkpoints

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/ident"
	"github.com/mindcoordinator/mind/fsm/reason"
)

const (
	local     = v1.CheckpointState_LOCAL
	uploading = v1.CheckpointState_UPLOADING
	durable   = v1.CheckpointState_DURABLE
	expired   = v1.CheckpointState_EXPIRED
)

func nobody(ident.Checkpoint) bool { return false }

// rows are checkpoints of steps 1, 2, ... in these states.
func rows(states ...v1.CheckpointState_Value) []*Checkpoint {
	all := make([]*Checkpoint, len(states))
	for i, s := range states {
		all[i] = &Checkpoint{ID: ident.Checkpoint(i + 1), Job: 1, Step: int64(i + 1), Path: fmt.Sprint("/c/", i+1), Digest: "d", Node: "n1", State: s}
	}
	return all
}

func ids(all []*Checkpoint) []ident.Checkpoint {
	var out []ident.Checkpoint
	for _, c := range all {
		out = append(out, c.ID)
	}
	return out
}

func TestRetention_givesUp(t *testing.T) {
	tests := map[string]struct {
		keep   Retention
		rows   []*Checkpoint
		change func(all []*Checkpoint)
		gone   []ident.Checkpoint
	}{
		"nothing when all are kept":         {Retention{}, rows(local, local, local), nil, nil},
		"the oldest":                        {Retention{Keep: 2}, rows(local, local, local, local), nil, []ident.Checkpoint{1, 2}},
		"not what is pinned":                {Retention{Keep: 1}, rows(local, local, local), func(all []*Checkpoint) { all[0].Pinned = true }, []ident.Checkpoint{2}},
		"not a model":                       {Retention{Keep: 1}, rows(local, local, local), func(all []*Checkpoint) { all[1].Model = true }, []ident.Checkpoint{1}},
		"not the newest DURABLE one":        {Retention{Keep: 1}, rows(durable, durable, local, local), nil, []ident.Checkpoint{1, 3}},
		"it when a newer one is":            {Retention{Keep: 1}, rows(durable, local, local, durable), nil, []ident.Checkpoint{1, 2, 3}},
		"no upload since then":              {Retention{Keep: 1}, rows(durable, uploading, local, uploading, local), nil, []ident.Checkpoint{3}},
		"of those that do not get on":       {Retention{Keep: 1}, rows(durable, uploading, uploading, uploading, local), stuck(2, 3, 4), []ident.Checkpoint{3, 4}},
		"one that gets on beside them":      {Retention{Keep: 1}, rows(durable, uploading, uploading, uploading, local), stuck(2, 3), []ident.Checkpoint{3}},
		"a part, while another node saves":  {Retention{Keep: 1}, rows(uploading, local, durable, local), func(all []*Checkpoint) { all[1].Step, all[2].Step = 3, 3 }, nil},
		"an upload that came to nothing":    {Retention{Keep: 1}, rows(uploading, durable, local), nil, []ident.Checkpoint{1}},
		"nothing twice":                     {Retention{Keep: 1}, rows(expired, expired, local), nil, nil},
		"not the best, the least":           {Retention{Keep: 1, Best: 1, Metric: "loss"}, rows(local, local, local), scored("loss", 1, 2, 3), []ident.Checkpoint{2}},
		"not the best, the greatest":        {Retention{Keep: 1, Best: 1, Metric: "+acc"}, rows(local, local, local), scored("+acc", 1, 2, 0.5), []ident.Checkpoint{1}},
		"of equal ones the older":           {Retention{Keep: 1, Best: 1, Metric: "loss"}, rows(local, local, local), scored("loss", 2, 2, 3), []ident.Checkpoint{1}},
		"what has no metric":                {Retention{Keep: 1, Best: 9, Metric: "loss"}, rows(local, local, local), nil, []ident.Checkpoint{1, 2}},
		"one step on several nodes as one":  {Retention{Keep: 1}, rows(local, local, local, local), func(all []*Checkpoint) { all[2].Step, all[2].Path = 4, all[3].Path }, []ident.Checkpoint{1, 2}},
		"what was not uploaded whole":       {Retention{Keep: 1}, rows(durable, durable, durable, local, local), sharded, []ident.Checkpoint{1}},
		"programs without steps by path":    {Retention{Keep: 1}, rows(local, local, local), func(all []*Checkpoint) { all[0].Step, all[1].Step, all[2].Step = 0, 0, 0 }, []ident.Checkpoint{1, 2}},
		"by age, not by the number of step": {Retention{Keep: 1}, rows(local, local, local), func(all []*Checkpoint) { all[2].Step = -1; all[0].Step = 99 }, []ident.Checkpoint{1, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(test.rows)
			}
			require.Equal(t, test.gone, ids(test.keep.Excess(test.rows, nobody)))
		})
	}
}

// stuck has something in the way of some uploads.
func stuck(ids ...int) func([]*Checkpoint) {
	return func(all []*Checkpoint) {
		for _, id := range ids {
			all[id-1].Reason = reason.Text("the archive is full")
		}
	}
}

// Replicas below the level of it keep the oldest alone.
func TestRetention_belowItsLevel(t *testing.T) {
	all := rows(durable, uploading, uploading, local)
	require.Empty(t, Retention{Keep: 1}.Excess(all, nobody))
}

// TestRetention_savesFasterThanItUploads has a job save on some nodes at any pace: it always gets DURABLE ones, nothing that is
// being uploaded is given up, and what is uploaded next is the newest.
func TestRetention_savesFasterThanItUploads(t *testing.T) {
	const workers = 2
	rapid.Check(t, func(t *rapid.T) {
		r := Retention{Keep: uint32(rapid.IntRange(2, 4).Draw(t, "keep"))}
		every, takes := rapid.IntRange(1, 4).Draw(t, "every"), rapid.IntRange(1, 30).Draw(t, "takes")
		shards := rapid.SampledFrom([][]string{{"n1"}, {"n1", "n2"}}).Draw(t, "nodes")
		tables, site := NewTables(), nodes{"n1": "", "n2": ""}
		begun := map[ident.Checkpoint]int{}
		var last ident.Checkpoint
		durables := 0
		const ticks = 100
		for now := range ticks {
			if now%every == 0 {
				for _, node := range shards {
					last++
					Put(&tables, &Checkpoint{ID: last, Job: 1, Step: int64(now + 1), Path: fmt.Sprint("/", node, "/", now), Digest: "d", Node: node, State: local})
				}
			}
			for _, node := range shards {
				busy := 0
				for id, since := range begun {
					c, _ := tables.Checkpoint(id)
					if c.Node != node {
						continue
					}
					changed := *c
					if changed.State = uploading; now-since >= takes {
						changed.State = durable
						durables++
						delete(begun, id)
					} else {
						busy++
					}
					Put(&tables, &changed)
				}
				for _, o := range tables.OrdersOf(node, site) {
					if _, does := begun[o.ID]; does || busy == workers || o.Action != v1.CheckpointAction_UPLOAD {
						continue
					}
					for c := range tables.newestOf(1) {
						if _, does := begun[c.ID]; !does && c.Node == node && c.State == local {
							require.Equal(t, c.ID, o.ID, "the next is the newest")
							break
						}
					}
					busy++
					begun[o.ID] = now
					c, _ := tables.Checkpoint(o.ID)
					changed := *c
					changed.State = uploading // Agents say so at once.
					Put(&tables, &changed)
				}
			}
			for _, c := range r.Excess(slices.Collect(tables.CheckpointsOf(1)), func(id ident.Checkpoint) bool { return id == last }) {
				if _, does := begun[c.ID]; does {
					newer := false
					for o := range tables.newestOf(1) {
						newer = newer || o.Durable() && o.ID > c.ID
					}
					require.True(t, newer, "%d was being uploaded", c.ID)
					delete(begun, c.ID)
				}
				changed := *c
				changed.State = expired
				Put(&tables, &changed)
			}
		}
		require.GreaterOrEqual(t, durables, len(shards)*(ticks/(max(takes, every)+1)-1))
	})
}

// sharded makes 2 and 3 one step, and 4 and 5 another: of that, only a part is DURABLE.
func sharded(all []*Checkpoint) {
	all[1].Step, all[2].Step, all[3].Step, all[4].Step = 2, 2, 4, 4
	all[3].State = durable
}

func scored(metric string, values ...float64) func([]*Checkpoint) {
	return func(all []*Checkpoint) {
		r := Retention{Best: 1, Metric: metric}
		for i, v := range values {
			all[i].Score = r.Score(fmt.Sprintf(`{%q: %v}`, r.name(), v))
		}
	}
}

func (r Retention) name() string {
	if r.Metric[0] == '+' {
		return r.Metric[1:]
	}
	return r.Metric
}

func TestRetention_scoresOrderLikeNumbers(t *testing.T) {
	greatest, least := Retention{Best: 1, Metric: "+m"}, Retention{Best: 1, Metric: "m"}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64Range(-1e300, 1e300).Draw(t, "a"), rapid.Float64Range(-1e300, 1e300).Draw(t, "b")
		of := func(r Retention, v float64) uint64 { return r.Score(fmt.Sprintf(`{"m": %v}`, v)) }
		require.Equal(t, cmp.Compare(a, b), cmp.Compare(of(greatest, a), of(greatest, b)))
		require.Equal(t, cmp.Compare(b, a), cmp.Compare(of(least, a), of(least, b)))
		require.NotZero(t, of(least, a))
	})
	for _, metrics := range []string{"", "{}", `{"m":null}`, `{"m":"1"}`, `{"M":1}`, "[1]", `{"m":1`, `{"m":NaN}`, `{"m":1e999}`} {
		require.Zero(t, least.Score(metrics), metrics)
	}
	require.Equal(t, least.Score(`{"m":0}`), least.Score(`{"m":-0.0}`))
}

// TestRetention_anyRows holds what retention promises of any checkpoints.
func TestRetention_anyRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retention{Keep: uint32(rapid.IntRange(1, 3).Draw(t, "keep")), Best: uint32(rapid.IntRange(0, 2).Draw(t, "best")), Metric: "m"}
		needed := ident.Checkpoint(rapid.IntRange(0, 12).Draw(t, "needed"))
		var all []*Checkpoint
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			all = append(all, &Checkpoint{
				ID: ident.Checkpoint(i + 1), Job: 1, Step: int64(rapid.IntRange(0, 8).Draw(t, "step")),
				Path: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "path"), Digest: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "digest"),
				State:  rapid.SampledFrom([]v1.CheckpointState_Value{0, local, uploading, durable, expired}).Draw(t, "state"),
				Pinned: rapid.IntRange(0, 9).Draw(t, "pinned") == 0, Model: rapid.IntRange(0, 9).Draw(t, "model") == 0,
				Score: uint64(rapid.IntRange(0, 4).Draw(t, "score")),
			})
		}
		excess := r.Excess(all, func(id ident.Checkpoint) bool { return id == needed })
		var left []*Checkpoint
		var newestDurable ident.Checkpoint
		for _, c := range all {
			if c.Durable() && c.Resumable() {
				newestDurable = c.ID
			}
			if !slices.Contains(excess, c) {
				left = append(left, c)
				continue
			}
			require.True(t, c.Resumable() && !c.Pinned && c.ID != needed, "%d", c.ID)
		}
		require.NotContains(t, ids(excess), newestDurable)
		require.Empty(t, r.Excess(left, func(id ident.Checkpoint) bool { return id == needed }), "once is enough")
		steps := bySteps(left)
		special := 4 // the newest that is DURABLE in part and whole, the upload, what is needed
		for _, s := range steps {
			if slices.ContainsFunc(s.rows, func(c *Checkpoint) bool { return c.Pinned || c.Uploads() }) {
				special++
			}
		}
		require.LessOrEqual(t, len(steps), int(r.Keep)+int(r.Best)+special)
		if n := len(bySteps(all)); n > 0 {
			require.GreaterOrEqual(t, len(steps), min(n, int(r.Keep)))
		}
	})
}
