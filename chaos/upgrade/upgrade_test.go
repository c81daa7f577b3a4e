package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/procs"
	"github.com/mindcoordinator/mind/chaos/scenario"
	"github.com/mindcoordinator/mind/chaos/scenario/users"
	"github.com/mindcoordinator/mind/devcluster"
	"github.com/mindcoordinator/mind/fsm/level"
	"github.com/mindcoordinator/mind/pki"
)

// before is the first version of mind at the base level (decision 0030).
const before = "d1ec001f"

// next is the level that the new binary supports beside the base: the linker sets it, so nothing is compiled again.
const next = level.Base + 1

// orders are all orders in which three coordinators can be upgraded; the short run uses the first one.
var orders = [][]string{{"c2", "c3", "c1"}, {"c1", "c2", "c3"}, {"c1", "c3", "c2"}, {"c2", "c1", "c3"}, {"c3", "c1", "c2"}, {"c3", "c2", "c1"}}

func TestUpgrade_inEveryOrder(t *testing.T) {
	ways := orders
	switch os.Getenv("MIND_UPGRADE") {
	case "":
		t.Skip("it builds an earlier version and takes minutes: run `make upgrade`")
	case "short":
		ways = ways[:1]
	}
	dir := t.TempDir()
	old, err := buildFrom(t.Context(), "../..", before, filepath.Join(dir, "old"))
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	now := filepath.Join(dir, "mind-new")
	require.NoError(t, build(t.Context(), "../..", now, "-ldflags", fmt.Sprint("-X github.com/mindcoordinator/mind/fsm/level.newest=", next)))

	u := &upgrade{t: t, versions: versions{path: filepath.Join(dir, "mind"), old: old, new: now}, runs: map[string]string{"c1": old, "c2": old, "c3": old}}
	require.NoError(t, u.install(old))
	start, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	state := filepath.Join(dir, "cluster")
	require.NoError(t, os.Mkdir(state, 0o755))
	u.cluster, err = procs.Start(start, u.path, state, "--agents", "3", "--gpus", "8xH100", "--http", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.cluster.Stop()) })
	t.Cleanup(func() { u.showLogs() })

	var steps []func(context.Context, *scenario.Fight) error
	for _, order := range ways {
		for _, binary := range []string{now, old} {
			for _, id := range order {
				steps = append(steps, u.replaceAndKillTheLeader(id, binary))
			}
		}
	}
	for _, id := range ways[0] {
		steps = append(steps, u.replaceAndKillTheLeader(id, now))
	}
	steps = append(steps, u.raise, u.allHaveOneState, u.anOldOneStops(ways[0][0]), u.allHaveOneState)

	result, err := scenario.Attack{
		Name: "upgrade", Rounds: len(steps), Between: 200 * time.Millisecond, Takes: true,
		Load:  scenario.Load{Steady: users.Steady{Jobs: 8, Replaceable: 4, Counted: true}, Clients: 3, Pause: 50 * time.Millisecond, Followers: 3},
		Fault: func(ctx context.Context, f *scenario.Fight) error { return steps[f.Round-1](ctx, f) },
	}.Run(t.Context(), scenario.Arena{Cluster: u.cluster, Mind: now, Scratch: dir, Log: t.Logf})
	require.NoError(t, err)
	t.Log(result)
	require.NoError(t, result.Broken())
	require.Zero(t, result.ClientErrors, "a client sees a slow answer during an upgrade, not an error")
	require.Positive(t, result.Failovers)
}

// upgrade is a cluster whose coordinators each run one of two versions.
type upgrade struct {
	versions
	t       *testing.T
	cluster *procs.Cluster
	// runs is the binary that each coordinator runs, by id.
	runs map[string]string
	// raised: the feature level may be raised, and is not held back any more.
	raised bool
}

func (u *upgrade) coordinator(id string) (procs.Component, error) {
	info, err := u.cluster.Info()
	if err != nil {
		return procs.Component{}, err
	}
	for _, p := range info.Coordinators {
		if p.ID == id {
			return p, nil
		}
	}
	return procs.Component{}, fmt.Errorf("there is no coordinator %s", id)
}

// start starts a stopped coordinator with its binary in runs.
func (u *upgrade) start(ctx context.Context, p procs.Component) error {
	raise := ""
	if u.runs[p.ID] == u.new && !u.raised {
		raise = "manual"
	}
	if err := configure(p, "raise", raise); err != nil {
		return err
	}
	if err := u.install(u.runs[p.ID]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := u.cluster.Revive(ctx, p); err != nil {
		return err
	}
	return u.cluster.WaitCaughtUp(ctx)
}

// replaceAndKillTheLeader makes a coordinator run another version, and then kills the leader.
func (u *upgrade) replaceAndKillTheLeader(id, binary string) func(context.Context, *scenario.Fight) error {
	return func(ctx context.Context, f *scenario.Fight) error {
		p, err := u.coordinator(id)
		if err != nil {
			return err
		}
		f.Log("%s runs %s from here on", id, filepath.Base(binary))
		u.runs[id] = binary
		if err := u.cluster.Signal(p, syscall.SIGTERM); err != nil {
			return err
		}
		if err := u.start(ctx, p); err != nil {
			return err
		}
		leader, err := u.cluster.Leader(ctx)
		if err != nil {
			return err
		}
		killed := time.Now()
		if err := u.cluster.Kill(leader); err != nil {
			return err
		}
		if err := f.Outage(ctx, "kill-leader", killed); err != nil {
			return err
		}
		if err := u.start(ctx, leader); err != nil {
			return err
		}
		return u.allHaveOneState(ctx, f)
	}
}

// operators returns a client of one coordinator, with an operator's certificate.
func (u *upgrade) operators(addr string) (*client.Client, error) {
	info, err := devcluster.ReadInfo(u.cluster.Dir)
	if err != nil {
		return nil, err
	}
	files := pki.Files{Cert: info.Operator.CertFile, Key: info.Operator.KeyFile, CA: info.CACert}
	tls, err := files.ClientTLS()
	if err != nil {
		return nil, err
	}
	return client.Dial(client.Config{Addrs: []string{addr}, Secret: info.Operator.APISecret, TLS: pki.RequireRole(tls, pki.RoleCoordinator)})
}

func (u *upgrade) ask(ctx context.Context, id string, ask func(context.Context, v1.OperatorServiceClient) error) error {
	info, err := devcluster.ReadInfo(u.cluster.Dir)
	if err != nil {
		return err
	}
	for _, c := range info.Coordinators {
		if c.ID != id {
			continue
		}
		conn, err := u.operators(c.GRPCAddr)
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(client.WithCall(ctx, client.Call{Operator: true}), 5*time.Second)
		defer cancel()
		return ask(ctx, conn.Operators())
	}
	return fmt.Errorf("there is no coordinator %s", id)
}

// allHaveOneState compares the hashes of all coordinators at one index, in both versions.
func (u *upgrade) allHaveOneState(ctx context.Context, f *scenario.Fight) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		first := &v1.GetStateHashResponse{}
		hash := func(id string, index uint64) (got *v1.GetStateHashResponse, err error) {
			err = u.ask(ctx, id, func(ctx context.Context, c v1.OperatorServiceClient) error {
				got, err = c.GetStateHash(ctx, &v1.GetStateHashRequest{Index: index})
				return err
			})
			return got, err
		}
		first, err := hash("c1", 0)
		same := 1
		for _, id := range []string{"c2", "c3"} {
			if err != nil {
				break
			}
			var other *v1.GetStateHashResponse
			if other, err = hash(id, first.GetIndex()); err == nil {
				// The part of a hash before the dash identifies the hashed fields. If one version has more fields,
				// these are empty.
				if _, theirs, _ := strings.Cut(other.GetHash(), "-"); !strings.HasSuffix(first.GetHash(), "-"+theirs) {
					return fmt.Errorf("at index %d, c1 has the state %s and %s has %s", first.GetIndex(), first.GetHash(), id, other.GetHash())
				}
				same++
			}
		}
		if same == 3 {
			f.Log("all coordinators have the state %s at index %d", first.GetHash(), first.GetIndex())
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("comparing the states: %w", err)
		}
		time.Sleep(50 * time.Millisecond) // the others have not applied the index of c1 yet, or do not have its hash any more
	}
}

// raise allows the new level on one coordinator after the other, and waits until the level was raised.
func (u *upgrade) raise(ctx context.Context, f *scenario.Fight) error {
	at, err := u.level(ctx)
	if err != nil {
		return err
	}
	if at != uint32(level.Base) {
		return fmt.Errorf("the level is %d before anybody raised it", at)
	}
	u.raised = true
	for _, id := range orders[0] {
		p, err := u.coordinator(id)
		if err != nil {
			return err
		}
		if err := u.cluster.Kill(p); err != nil {
			return err
		}
		if err := u.start(ctx, p); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if at, err = u.level(ctx); err == nil && at == uint32(next) {
			f.Log("the level is %d", at)
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("the level is %d and was not raised to %d", at, next), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (u *upgrade) level(ctx context.Context) (at uint32, err error) {
	err = u.ask(ctx, "c1", func(ctx context.Context, c v1.OperatorServiceClient) error {
		got, err := c.GetFeatureLevel(ctx, &v1.GetFeatureLevelRequest{})
		at = got.GetLevel()
		return err
	})
	return at, err
}

// anOldOneStops starts a coordinator with the old version, which must exit with the reason, and do no harm.
func (u *upgrade) anOldOneStops(id string) func(context.Context, *scenario.Fight) error {
	return func(ctx context.Context, f *scenario.Fight) error {
		p, err := u.coordinator(id)
		if err != nil {
			return err
		}
		if err := u.cluster.Kill(p); err != nil {
			return err
		}
		if err := u.cluster.WaitGone(ctx, p); err != nil {
			return err
		}
		if err := errors.Join(configure(p, "raise", ""), u.install(u.old)); err != nil {
			return err
		}
		log := filepath.Join(u.cluster.Dir, "logs", p.Name()+".log")
		from, err := os.Stat(log)
		if err != nil {
			return err
		}
		old, err := u.cluster.Restart(p)
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- old.Wait() }()
		select {
		case err = <-ended:
		case <-time.After(20 * time.Second):
			_ = old.Process.Kill()
			<-ended
		}
		text, readErr := os.ReadFile(log)
		if readErr != nil {
			return readErr
		}
		said := string(text[from.Size():])
		f.Log("the old version ended with %v", err)
		if !strings.Contains(said, "newer version of mind") && !strings.Contains(said, "this version of mind reads") && !strings.Contains(said, "this version of mind supports") && !strings.Contains(said, "moved") {
			return fmt.Errorf("the old version was started on the raised level and did not say why it cannot go on: %s", said[max(0, len(said)-2000):])
		}
		p.PID = 0
		return u.start(ctx, p)
	}
}

func (u *upgrade) showLogs() {
	if !u.t.Failed() {
		return
	}
	logs, _ := filepath.Glob(filepath.Join(u.cluster.Dir, "logs", "*.log"))
	for _, l := range logs {
		if text, err := os.ReadFile(l); err == nil {
			u.t.Logf("%s ends with:\n%s", filepath.Base(l), text[max(0, len(text)-3000):])
		}
	}
}
