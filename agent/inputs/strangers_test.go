package inputs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// at is a question of a node about an agreement, as a sign of life: it is answered at once.
func at(node, job string, rank int32) *v1.AgreeOnResumeRequest {
	return &v1.AgreeOnResumeRequest{NodeId: node, Task: &v1.TaskRef{JobId: job, Attempt: 2, Rank: rank, Token: 7}, Proposal: 1}
}

// An agent speaks only for the ranks that run on its node.
func TestAgree_anAgentSpeaksForItsOwnRanks(t *testing.T) {
	g := openAgreements(t.TempDir(), slog.New(slog.DiscardHandler))
	id := attempt{"job_1", 2, 7}
	g.lead(id, []*v1.TaskPeer{{NodeId: "n0"}, {NodeId: "n1"}, {NodeId: "n2"}})
	g.propose(id, point(30, 0))
	own, err := g.ask(t.Context(), at("n1", "job_1", 1))
	require.NoError(t, err)
	for _, c := range []struct {
		node string
		rank int32
	}{{"n2", 1}, {"n9", 1}, {"", 1}, {"n1", 2}, {"n1", 3}} {
		req := at(c.node, "job_1", c.rank)
		req.Round, req.Answer = own.GetRound(), v1.ResumeAnswer_CANNOT_GET_IT
		got, err := g.ask(t.Context(), req)
		require.Equal(t, codes.PermissionDenied, status.Code(err), "%+v", c)
		require.Nil(t, got)
	}
	require.Empty(t, g.of(id).answers)
	require.Len(t, g.of(id).heard, 1)
	req := at("n1", "job_1", 1)
	req.Round, req.Answer = own.GetRound(), v1.ResumeAnswer_HAS_IT
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = g.ask(ctx, req)
	require.NoError(t, err)
	require.Equal(t, v1.ResumeAnswer_HAS_IT, g.of(id).answers[1])
}

// Questions about attempts that this node does not know keep little, and name no file elsewhere.
func TestAgree_whatIsNotKnownIsBounded(t *testing.T) {
	g := openAgreements(t.TempDir(), slog.New(slog.DiscardHandler))
	for _, job := range []string{"", "../../x", "a/b"} {
		_, err := g.ask(t.Context(), at("n1", job, 1))
		require.Equal(t, codes.InvalidArgument, status.Code(err), job)
	}
	_, err := g.ask(t.Context(), at("n1", "job_1", -1))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Empty(t, g.all)
	for i := range mostUnknown {
		_, err := g.ask(t.Context(), at("n1", fmt.Sprintf("job_%d", i), 1))
		require.NoError(t, err)
	}
	_, err = g.ask(t.Context(), at("n1", "job_more", 1))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Len(t, g.all, mostUnknown)
	for rank := range int32(100) {
		req := at("n1", "job_0", rank)
		req.Round, req.Proposal = g.all[attempt{"job_0", 2, 7}].round, 0
		req.Answer = v1.ResumeAnswer_CANNOT_GET_IT
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := g.ask(ctx, req)
		require.NoError(t, err)
	}
	require.Empty(t, g.all[attempt{"job_0", 2, 7}].heard)
	require.Empty(t, g.all[attempt{"job_0", 2, 7}].answers)
	_, err = g.ask(t.Context(), at("n1", "job_0", 1))
	require.NoError(t, err, "one that waits goes on")
	g.lead(attempt{"job_mine", 2, 7}, []*v1.TaskPeer{{NodeId: "n0"}, {NodeId: "n1"}})
	_, err = g.ask(t.Context(), at("n1", "job_mine", 1))
	require.NoError(t, err, "the attempts of this node go on")
	_, err = g.ask(t.Context(), at("n9", "job_mine", 1))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
