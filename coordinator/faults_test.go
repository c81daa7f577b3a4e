package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

func TestNewJob_namesAllFaultsAtOnce(t *testing.T) {
	_, err := newJob(&v1.SubmitJobRequest{
		CommandConfig:    &v1.CommandConfig{Cwd: "runs", Environment: map[string]string{"A=B": "", "": "x"}},
		ResourceConfig:   &v1.ResourceConfig{GpuCount: -1, NodeCount: 5000, Topology: "ring", NodeSelector: map[string]string{"a": "b,c", "d": "e=f"}},
		SchedulingConfig: &v1.SchedulingConfig{Priority: proto.Int32(11), MaxRetries: proto.Int32(-1), LostAfterSeconds: 1, RetryOn: []string{"moon"}},
		OutputConfig:     &v1.OutputConfig{OutputDir: "out", KeepCheckpoints: -1},
		Labels:           map[string]string{"x=y": "z"},
	}, largest(8))
	lines := strings.Split(err.Error(), "\n")
	var fields []string
	for _, line := range lines {
		field, _, _ := strings.Cut(line, ": ")
		fields = append(fields, field)
	}
	require.Equal(t, []string{
		"command_config.argv", "command_config.cwd", "command_config.environment", "command_config.environment",
		"resource_config.gpu_count", "resource_config.node_count", "resource_config.topology", "resource_config.node_selector", "resource_config.node_selector",
		"scheduling_config.priority", "scheduling_config.max_retries", "scheduling_config.retry_on", "scheduling_config.lost_after_seconds",
		"labels", "output_config.output_dir", "output_config.keep_checkpoints",
	}, fields)
	require.Equal(t, codes.InvalidArgument, grpcstatus.Code(call.ToStatus(err)))
	require.Equal(t, err.Error(), grpcstatus.Convert(call.ToStatus(err)).Message())

	_, err = newJob(&v1.SubmitJobRequest{TrainingConfig: &v1.TrainingConfig{}}, largest(8))
	require.Equal(t, 6, strings.Count(err.Error(), "is required")+strings.Count(err.Error(), "is empty")+strings.Count(err.Error(), "at least 1"), err)
	require.Equal(t, 5, strings.Count(err.Error(), "\n"), "what hangs on another fault is none of its own: %s", err)
}

func TestFaults_areBounded(t *testing.T) {
	var f call.Faults
	require.NoError(t, f.Err())
	for i := range 20 {
		f.Bad(fmt.Sprint("field", i), "%s", strings.Repeat("x", 2000)+"\nnot a line of its own")
	}
	lines := strings.Split(f.Err().Error(), "\n")
	require.Len(t, lines, call.MaxFaults+1)
	require.Len(t, lines[0], len("field0: ")+2000+len(" not a line of its own"), "the first is told whole")
	require.Len(t, lines[1], call.MaxFaultBytes)
	require.Equal(t, "and 4 more", lines[call.MaxFaults])

	var g call.Faults
	g.Add(f.Err())
	g.Add(call.Bad("another", "is wrong"))
	require.Contains(t, g.Err().Error(), "and 5 more")
	require.True(t, g.Below("field0"))
	var first *call.Invalid
	require.ErrorAs(t, g.Err(), &first)
	require.Equal(t, "field0", first.Field)
}

func TestFaults_whatIsNoFaultOfTheRequestComesFirst(t *testing.T) {
	broken := errors.New("the disk is on fire")
	var f call.Faults
	f.Bad("a", "is wrong")
	f.Add(broken)
	f.Add(nil)
	require.ErrorIs(t, f.Err(), broken)
}

func TestFaults_below(t *testing.T) {
	var f call.Faults
	f.Bad("training_config_of_another", "is wrong")
	require.False(t, f.Below("training_config"))
	f.Bad("training_config.priority", "is wrong")
	require.True(t, f.Below("training_config"))
	require.False(t, f.Below("training_config.pri"))
}
