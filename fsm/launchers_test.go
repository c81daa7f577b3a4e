package fsm_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/catalog"
	"github.com/mindcoordinator/mind/fsm/kernel"
)

func testLauncher(framework string) catalog.Launcher {
	return catalog.Launcher{
		Framework: framework, Argv: []string{"/opt/run", "{config}"}, DistributedArgv: []string{"torchrun", "{script}"},
		Environment: map[string]string{"A": "b", "C": "d"}, Hyperparameters: []string{"lr"}, TrainingTypes: []string{"SFT"},
		Tenant: "acme", User: "ann",
	}
}

func TestLaunchers(t *testing.T) {
	w := newWorld(t)
	_, ok := w.m.View().Launcher("CUSTOM")
	require.False(t, ok, "what mind comes with is not in the state")
	put := do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: testLauncher("CUSTOM")})
	require.Nil(t, put.Refusal)
	require.Equal(t, w.now, put.Launcher.UpdatedAt)
	require.Equal(t, w.index, put.Launcher.Revision)
	before := w.m.View()

	other := testLauncher("CUSTOM")
	other.Argv = []string{"/opt/other"}
	require.Nil(t, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: other}).Refusal)
	got, ok := w.m.View().Launcher("CUSTOM")
	require.True(t, ok)
	require.Equal(t, []string{"/opt/other"}, got.Argv)
	old, _ := before.Launcher("CUSTOM")
	require.Equal(t, []string{"/opt/run", "{config}"}, old.Argv, "a view does not change")

	require.Nil(t, do[catalog.LauncherResult](w, catalog.DeleteLauncher{Framework: "CUSTOM"}).Refusal)
	require.Nil(t, do[catalog.LauncherResult](w, catalog.DeleteLauncher{Framework: "CUSTOM"}).Refusal, "twice is once")
	for range w.m.View().Launchers() {
		t.Fatal("a launcher is left")
	}
}

func TestLaunchers_refused(t *testing.T) {
	for name, change := range map[string]func(*catalog.Launcher){
		"no framework":     func(l *catalog.Launcher) { l.Framework = "" },
		"a long framework": func(l *catalog.Launcher) { l.Framework = strings.Repeat("x", 65) },
		"no argv":          func(l *catalog.Launcher) { l.Argv = nil },
		"many arguments":   func(l *catalog.Launcher) { l.DistributedArgv = make([]string, 4097) },
		"huge":             func(l *catalog.Launcher) { l.Environment = map[string]string{"A": strings.Repeat("x", 64<<10)} },
		"a nul":            func(l *catalog.Launcher) { l.Hyperparameters = []string{"a\x00"} },
		"a nul in its env": func(l *catalog.Launcher) { l.Environment = map[string]string{"A\x00": ""} },
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWorld(t), testLauncher("CUSTOM")
			change(&l)
			require.Equal(t, kernel.CodeInvalidArgument, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: l}).Refusal.Code)
			for range w.m.View().Launchers() {
				t.Fatal("it was put all the same")
			}
		})
	}
	w := newWorld(t)
	for i := range catalog.MaxLaunchers {
		require.Nil(t, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: testLauncher(fmt.Sprint("F", i))}).Refusal)
	}
	require.Equal(t, kernel.CodeResourceExhausted, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: testLauncher("CUSTOM")}).Refusal.Code)
	require.Nil(t, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: testLauncher("F7")}).Refusal, "one that is there can be replaced")
}

func TestLaunchers_surviveSnapshots(t *testing.T) {
	w := newWorld(t)
	for _, framework := range []string{"CUSTOM", "FSDP", "EVALUATION"} {
		l := testLauncher(framework)
		l.Environment = maps.Clone(l.Environment)
		require.Nil(t, do[catalog.LauncherResult](w, catalog.PutLauncher{Launcher: l}).Refusal)
	}
	restored := fsm.New()
	require.NoError(t, restored.Restore(bytes.NewReader(snapshotBytes(t, w.m))))
	sameState(t, w.m, restored)
	l, ok := restored.View().Launcher("FSDP")
	require.True(t, ok)
	require.Equal(t, map[string]string{"A": "b", "C": "d"}, l.Environment)
}
