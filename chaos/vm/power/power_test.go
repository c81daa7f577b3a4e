package power

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
)

func TestApply_takesExactlyOnePlace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o600))
	for name, tc := range map[string]struct {
		changes []Change
		want    string
		err     string
	}{
		"once":            {[]Change{{"a.go", "one", "1"}}, "1 two two", ""},
		"on top":          {[]Change{{"a.go", "one", "1"}, {"a.go", "1 two", "3"}}, "3 two", ""},
		"it is gone":      {[]Change{{"a.go", "three", "3"}}, "", "0 times"},
		"it is ambiguous": {[]Change{{"a.go", "two", "2"}}, "", "2 times"},
		"no such file":    {[]Change{{"b.go", "two", "2"}}, "", "no such file"},
	} {
		files, err := apply(dir, tc.changes)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, string(files["a.go"]), name)
	}
}

// All changes for the machine must fit the sources, or the power cuts would test something else.
func TestChanges_fitTheSources(t *testing.T) {
	dir, err := root(t.Context())
	require.NoError(t, err)
	for _, changes := range [][]Change{pace, logStores["wal"], logStores["boltdb"], logStores["moving"]} {
		_, err = apply(dir, changes)
		require.NoError(t, err)
	}
	names := map[string]bool{}
	for _, m := range Mutants {
		require.False(t, names[m.Name], m.Name)
		names[m.Name] = true
		require.NotEmpty(t, m.What)
		files, err := apply(dir, slices.Concat(pace, m.Changes))
		require.NoError(t, err, m.Name)
		require.NotEmpty(t, files)
		found, err := FindMutant(m.Name)
		require.NoError(t, err)
		require.Equal(t, m, found)
	}
	_, err = FindMutant("no-such")
	require.ErrorContains(t, err, "they are log-is-not-synced")
}

func TestDeck_dealsEachMomentOnceAndThenAgain(t *testing.T) {
	next := deck(rand.New(rand.NewPCG(1, 0)), moments)
	for range 3 {
		dealt := map[string]int{}
		for range moments {
			dealt[next().name]++
		}
		for _, m := range moments {
			require.Equal(t, 1, dealt[m.name], m.name)
		}
	}
	some, err := momentsNamed(ShortMoments())
	require.NoError(t, err)
	require.Len(t, some, len(shortMoments))
	_, err = momentsNamed([]string{"never"})
	require.ErrorContains(t, err, `no moment "never"`)
	require.Len(t, MomentNames(), len(moments))
}

func TestEvents_areWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvents()
		e.tell(ledger.Ended)
		e.await(t.Context(), ledger.Ended, 1) // the event has happened already
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.await(t.Context(), ledger.Ended, 3)
		}()
		for range 2 {
			synctest.Wait()
			select {
			case <-done:
				t.Fatal("it came too soon")
			default:
			}
			e.tell(ledger.Acknowledged)
			e.tell(ledger.Ended)
		}
		<-done
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e.await(ctx, ledger.Quarantined, 1) // the event never happens: the context ends the wait
	})
}
