package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/fsm/work"
)

func TestPhilly(t *testing.T) {
	jobs, err := Philly(strings.NewReader("job_id,user,num_gpu,submit_time,duration\n7,b,20,90,3\n1,a,1,5,747\n2,a,0,6,1\n"))
	require.NoError(t, err)
	require.Equal(t, []Job{
		{ID: "1", User: "a", Shape: work.Shape{Nodes: 1, GPUs: 1}, Submit: 5 * time.Minute, Takes: 747 * time.Minute},
		{ID: "7", User: "b", Shape: work.Shape{Nodes: 3, GPUs: 8}, Submit: 90 * time.Minute, Takes: 3 * time.Minute},
	}, jobs)
}

func TestOpenB(t *testing.T) {
	jobs, err := OpenBJobs(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,12000,16384,2,1000,V100M16|V100M32\np1,6000,12288,1,460,\np2,100,1,0,0,\n"))
	require.NoError(t, err)
	require.Equal(t, []Job{
		{ID: "p0", User: "openb", Shape: work.Shape{Nodes: 1, GPUs: 2, GPUType: "V100M16|V100M32", CPUs: 12000, MemMB: 16384}},
		{ID: "p1", User: "openb", Shape: work.Shape{Nodes: 1, FractionMilli: 460, CPUs: 6000, MemMB: 12288}},
		{ID: "p2", User: "openb", Shape: work.Shape{Nodes: 1, CPUs: 100, MemMB: 1}},
	}, jobs)

	nodes, err := OpenBNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n"))
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.Equal(t, "P100", nodes[0].GPUs[1].Type)
	require.Equal(t, uint32(64000), nodes[0].CPUs)
}

func TestFormats_sayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":              "read the header: EOF",
		"job_id,user\n": `the column "num_gpu" is missing: this format has job_id, user, num_gpu, submit_time, duration`,
		"job_id,user,num_gpu,submit_time,duration\n":            "the file has no line after its header",
		"job_id,user,num_gpu,submit_time,duration\n1,a,x,1,1\n": `line 2: num_gpu is "x": it must be a whole number from 0 to 524280`,
	} {
		_, err := Philly(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
}

func TestWritePhilly_isReadAgain(t *testing.T) {
	jobs := []Job{
		{ID: "1", User: "a", Shape: work.Shape{Nodes: 1, GPUs: 1}, Submit: 5 * time.Minute, Takes: 747 * time.Minute},
		{ID: "2", User: "b", Shape: work.Shape{Nodes: 3, GPUs: 8}, Submit: 90 * time.Minute, Takes: 3 * time.Minute},
	}
	var file strings.Builder
	written, left, err := WritePhilly(&file, append(jobs, Job{ID: "3", Shape: work.Shape{FractionMilli: 500}}))
	require.NoError(t, err)
	require.Equal(t, 2, written)
	require.Equal(t, 1, left)
	again, err := Philly(strings.NewReader(file.String()))
	require.NoError(t, err)
	require.Equal(t, jobs, again)
}
