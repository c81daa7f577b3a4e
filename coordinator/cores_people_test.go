package coordinator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/api/status"
)

// A checkpoint whose assignee or subject comes from a value that is missing asks nobody: it would be open to everybody,
// and would take an answer about anything.
func TestCores_aMissingValueOpensNoCheckpoint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		for field, block := range map[string]string{
			"assignee":       `"prompt":"Ship?","assignee":"{{input.missing}}"`,
			"subject_digest": `"prompt":"Ship?","subject_digest":"{{input.missing}}"`,
			"prompt":         `"prompt":"{{input.missing}}"`,
			"names nobody":   `"prompt":"Ship?","assignee":"user:{{input.missing}}"`,
			"begin with":     `"prompt":"Ship?","assignee":"User:ann"`,
		} {
			name := "asks " + field
			made, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: name, Source: source(t, `[{"kind":"checkpoint","id":"ask","options":["ship","drop"],`+block+`}]`)})
			require.NoError(t, err)
			id := made.GetCore().GetId()
			_, err = c.cores(at).StartCore(c.ctx("t1", ""), &v1.StartCoreRequest{CoreId: id})
			require.NoError(t, err)
			input, err := structpb.NewValue(map[string]any{"missing": ""})
			require.NoError(t, err)
			// It is called before it runs: the call waits.
			got, err := c.cores(at).InvokeCore(c.ctx("t1", ""), &v1.InvokeCoreRequest{CoreId: id, Input: input, WaitSeconds: proto.Int32(30)})
			require.NoError(t, err, field)
			require.Equal(t, "failed", got.GetExecution().GetStatus(), field)
			require.Contains(t, got.GetExecution().GetError().String(), field)
		}
		require.Empty(t, c.checkpoints(at))
	})
}

func TestCores_aCheckpointKeepsItsAssigneeAndItsSubject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "asks", `[{"kind":"checkpoint","id":"ask","prompt":"Ship?","options":["ship","drop"],"assignee":"user:ann"}]`)
		c.invoke(at, "asks", map[string]any{}, 0)
		c.eventually("people are asked", func() bool { return len(c.checkpoints(at)) == 1 })
		id := c.checkpoints(at)[0].GetId()
		ann := c.ctx("t1", "", status.KeyUser, "ann")
		for _, who := range []string{"", " ", "user:", "Group:ops"} {
			_, err := c.cores(at).ReassignDecision(ann, &v1.ReassignDecisionRequest{CheckpointId: id, Assignee: who})
			requireCode(t, codes.InvalidArgument, err, "assignee")
		}
		_, err := c.cores(at).ResolveDecision(c.ctx("t1", "", status.KeyUser, "eve"), &v1.ResolveDecisionRequest{CheckpointId: id, Resolution: "ship"})
		requireCode(t, codes.PermissionDenied, err)
		_, err = c.cores(at).ResolveDecision(ann, &v1.ResolveDecisionRequest{CheckpointId: id, Resolution: "ship", SubjectDigest: "sha256:bbb"})
		requireCode(t, codes.FailedPrecondition, err, "sha256:bbb")
		_, err = c.cores(at).ResolveDecision(ann, &v1.ResolveDecisionRequest{CheckpointId: id, Resolution: "ship"})
		require.NoError(t, err)
	})
}

// A question that is longer than what is kept says so: nobody answers half a question without knowing.
func TestCores_aLongQuestionSaysThatItWasCut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		c.core(at, "asks", `[{"kind":"checkpoint","id":"ask","prompt":"{{input.text}}","options":["ship","drop"]}]`)
		c.invoke(at, "asks", map[string]any{"text": strings.Repeat("é", 2000)}, 0)
		c.eventually("people are asked", func() bool { return len(c.checkpoints(at)) == 1 })
		prompt := c.checkpoints(at)[0].GetPrompt()
		require.Regexp(t, `é\n\[cut: the question has 4000 bytes, and 2048 are shown; long texts belong in its context\]$`, prompt)
		require.LessOrEqual(t, len(prompt), 2048)
	})
}

// Many change a Core at once without a condition: all changes are made, one after the other.
func TestCores_changesWithoutAConditionAreAllMade(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := startCluster(t, 1, nil)
		at := c.leader()
		made, err := c.cores(at).CreateCore(c.ctx("t1", ""), &v1.CreateCoreRequest{Name: "shared"})
		require.NoError(t, err)
		id := made.GetCore().GetId()
		failed := make(chan error, 20)
		for i := range cap(failed) {
			go func() {
				_, err := c.cores(at).UpdateCore(c.ctx("t1", ""), &v1.UpdateCoreRequest{CoreId: id, RuntimeMode: []string{"api", "event_driven"}[i%2]})
				failed <- err
			}()
		}
		for range cap(failed) {
			require.NoError(t, <-failed)
		}
		_, err = c.cores(at).UpdateCore(c.ctx("t1", ""), &v1.UpdateCoreRequest{CoreId: id, RuntimeMode: "api", IfRevision: 1})
		requireCode(t, codes.FailedPrecondition, err, "changed meanwhile")
		flow := c.flow(at, `{"schema_version":"0.2","name":"f","nodes":[{"id":"a","type":"trigger"},{"id":"b","type":"return"}],"edges":[{"id":"e","source":{"node":"a"},"target":{"node":"b"}}]}`)
		for range cap(failed) {
			go func() {
				got, err := c.flows(at).DeployFlow(c.as("ann"), &v1.DeployFlowRequest{FlowId: flow.GetId()})
				if err == nil && got.GetFault() != nil && got.GetFault().GetError() == "scaicore_create_failed" {
					t.Errorf("%v", got.GetFault())
				}
				failed <- err
			}()
		}
		for range cap(failed) {
			require.NoError(t, <-failed)
		}
	})
}
