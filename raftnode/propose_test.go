package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// stuck runs fn with a single replica whose state machine applies nothing until release is called, so that entries stay
// in flight.
func stuck(t *testing.T, tune func(*Config), fn func(t *testing.T, c *cluster, n *Node, release func())) {
	runCluster(t, 1, func(_ string, cfg *Config) {
		cfg.MaxInFlight = 1
		tune(cfg)
	}, func(t *testing.T, c *cluster) {
		n, sm := c.leader(), c.sms["c1"]
		sm.mu.Lock()
		sm.block = make(chan struct{})
		sm.mu.Unlock()
		released := false
		release := func() {
			if !released {
				released = true
				close(sm.block)
			}
		}
		defer release()
		fn(t, c, n, release)
	})
}

type outcome struct {
	Applied
	err error
}

func (c *cluster) proposeAside(ctx context.Context, n *Node, command string) <-chan outcome {
	answer := make(chan outcome, 1)
	go func() {
		a, err := n.Propose(ctx, []byte(command))
		answer <- outcome{a, err}
	}()
	synctest.Wait()
	return answer
}

func TestPropose_backlogIsBounded(t *testing.T) {
	stuck(t, func(cfg *Config) { cfg.MaxBacklog = 3 }, func(t *testing.T, c *cluster, n *Node, release func()) {
		var answers []<-chan outcome
		for i := range 4 { // one in flight, three waiting
			answers = append(answers, c.proposeAside(t.Context(), n, fmt.Sprint(i)))
		}
		require.Equal(t, 3, n.Stats().Backlog)
		_, err := n.Propose(t.Context(), []byte("too many"))
		require.ErrorIs(t, err, ErrBacklogFull)
		require.ErrorIs(t, err, ErrNotSent)
		release()
		for i, a := range answers {
			got := <-a
			require.NoError(t, got.err)
			require.Equal(t, chainResult{fmt.Sprint(i), i}, got.Result)
		}
		require.Zero(t, n.Stats().Backlog)
		c.propose(n, "room again")
	})
}

func TestPropose_backlogIsBoundedInBytes(t *testing.T) {
	stuck(t, func(cfg *Config) { cfg.MaxBacklogBytes = 10 }, func(t *testing.T, c *cluster, n *Node, release func()) {
		c.proposeAside(t.Context(), n, "in flight")
		c.proposeAside(t.Context(), n, strings.Repeat("x", 20)) // a single command may wait
		_, err := n.Propose(t.Context(), []byte("y"))
		require.ErrorIs(t, err, ErrBacklogFull)
		release()
	})
}

func TestPropose_sizeAtTheLimitAndPastIt(t *testing.T) {
	runCluster(t, 1, func(_ string, cfg *Config) { cfg.MaxCommandBytes = 1000; cfg.MaxEntryBytes = 100 }, func(t *testing.T, c *cluster) {
		c.propose(c.leader(), strings.Repeat("x", 1000))
		_, err := c.leader().Propose(t.Context(), []byte(strings.Repeat("x", 1001)))
		require.ErrorIs(t, err, ErrCommandTooLarge)
		require.ErrorIs(t, err, ErrNotSent)
	})
}

func TestPropose_entriesAreBounded(t *testing.T) {
	for name, tune := range map[string]func(*Config){
		"in bytes":    func(cfg *Config) { cfg.MaxEntryBytes = 40 },
		"in commands": func(cfg *Config) { cfg.MaxEntryCommands = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			stuck(t, tune, func(t *testing.T, c *cluster, n *Node, release func()) {
				var answers []<-chan outcome
				for range 9 { // an entry with one command, then two full ones
					answers = append(answers, c.proposeAside(t.Context(), n, strings.Repeat("x", 10)))
				}
				release()
				indexes := map[uint64]int{}
				for _, a := range answers {
					got := <-a
					require.NoError(t, got.err)
					indexes[got.Index]++
				}
				require.Len(t, indexes, 3)
				for _, commands := range indexes {
					require.LessOrEqual(t, commands, 4)
				}
			})
		})
	}
}

func TestPropose_contextEndsBeforePackingIsNotSent(t *testing.T) {
	stuck(t, func(*Config) {}, func(t *testing.T, c *cluster, n *Node, release func()) {
		first := c.proposeAside(t.Context(), n, "in flight")
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := c.proposeAside(ctx, n, "waits")
		why := errors.New("caller went away")
		cancel(why)
		got := <-waiting
		require.ErrorIs(t, got.err, ErrNotSent)
		require.ErrorIs(t, got.err, why)
		require.Zero(t, n.Stats().Backlog)

		_, err := n.Propose(ctx, []byte("never"))
		require.ErrorIs(t, err, ErrNotSent)
		release()
		require.NoError(t, (<-first).err)
		require.Equal(t, []string{"in flight", "end"}, c.agree(c.propose(n, "end").Index).Commands)
	})
}

func TestPropose_contextEndsAfterPackingIsUnknown(t *testing.T) {
	stuck(t, func(*Config) {}, func(t *testing.T, c *cluster, n *Node, release func()) {
		ctx, cancel := context.WithCancel(t.Context())
		sent := c.proposeAside(ctx, n, "in flight")
		cancel()
		got := <-sent
		require.ErrorIs(t, got.err, ErrUnknownOutcome)
		require.ErrorIs(t, got.err, context.Canceled)
		require.NotErrorIs(t, got.err, ErrNotSent)
		release()
		require.Equal(t, []string{"in flight", "end"}, c.agree(c.propose(n, "end").Index).Commands)
	})
}

func TestPropose_shutdownRefusesWhatWaitsAndAnswersWhatIsSent(t *testing.T) {
	stuck(t, func(*Config) {}, func(t *testing.T, c *cluster, n *Node, release func()) {
		sent := c.proposeAside(t.Context(), n, "in flight")
		waiting := c.proposeAside(t.Context(), n, "waits")
		go func() { _ = n.Shutdown(context.Background()) }()
		synctest.Wait()
		require.ErrorIs(t, (<-waiting).err, ErrStopped)
		release()
		require.NoError(t, (<-sent).err)
		<-n.Done()
		require.NoError(t, n.Err())
	})
}
