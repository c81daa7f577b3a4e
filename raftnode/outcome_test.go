package raftnode

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// exportedSentinels returns the names of the Err variables in the source of hashicorp/raft.
func exportedSentinels(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/hashicorp/raft").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	require.NoError(t, err)
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, ident := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(ident.Name, "Err") {
						names = append(names, ident.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// byName has the variables by name, because Go cannot look them up.
var byName = map[string]error{
	"ErrAbortedByRestore":                raft.ErrAbortedByRestore,
	"ErrCantBootstrap":                   raft.ErrCantBootstrap,
	"ErrEnqueueTimeout":                  raft.ErrEnqueueTimeout,
	"ErrLeader":                          raft.ErrLeader,
	"ErrLeadershipLost":                  raft.ErrLeadershipLost,
	"ErrLeadershipTransferInProgress":    raft.ErrLeadershipTransferInProgress,
	"ErrLogNotFound":                     raft.ErrLogNotFound,
	"ErrNotLeader":                       raft.ErrNotLeader,
	"ErrNotVoter":                        raft.ErrNotVoter,
	"ErrNothingNewToSnapshot":            raft.ErrNothingNewToSnapshot,
	"ErrPipelineReplicationNotSupported": raft.ErrPipelineReplicationNotSupported,
	"ErrPipelineShutdown":                raft.ErrPipelineShutdown,
	"ErrRaftShutdown":                    raft.ErrRaftShutdown,
	"ErrTransportShutdown":               raft.ErrTransportShutdown,
	"ErrUnsupportedProtocol":             raft.ErrUnsupportedProtocol,
}

func TestOutcomes_coverEverySentinelOfRaft(t *testing.T) {
	names := exportedSentinels(t)
	require.NotEmpty(t, names)
	for _, name := range names {
		sentinel, known := byName[name]
		if !known {
			t.Errorf("raft.%s is new: add it to this test and, on purpose, to outcomes", name)
			continue
		}
		if _, classified := outcomes[sentinel]; !classified {
			t.Errorf("raft.%s has no outcome", name)
		}
	}
	require.Len(t, byName, len(names), "a sentinel is gone from raft")
	require.Len(t, outcomes, len(names), "an outcome for something raft does not have")
}

func TestWriteError_threeOutcomes(t *testing.T) {
	runCluster(t, 1, nil, func(t *testing.T, c *cluster) {
		n := c.leader()
		for err, v := range outcomes {
			got := n.writeError(fmt.Errorf("wrapped: %w", err))
			sent := v == outcomeUnknown || v == outcomeStopped
			require.Equal(t, sent, errors.Is(got, ErrUnknownOutcome), "%v", err)
			require.Equal(t, !sent, errors.Is(got, ErrNotSent), "%v", err)
		}
		require.ErrorIs(t, n.writeError(errors.New("of the disk")), ErrUnknownOutcome)
		// The error must never name this replica as the leader.
		require.Equal(t, &NotLeaderError{}, n.writeError(raft.ErrNotLeader))
	})
	require.Equal(t, outcomeUnknown, classify(raft.ErrLeadershipLost))
	for _, err := range []error{ErrBacklogFull, ErrCommandTooLarge, ErrStopped, &NotLeaderError{LeaderID: "c2"}} {
		require.ErrorIs(t, err, ErrNotSent)
		require.NotErrorIs(t, err, ErrUnknownOutcome)
	}
}
