package simulate_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const (
	phillyJobs = "job_id,user,num_gpu,submit_time,duration\n0,a,8,0,600\n1,b,8,1,60\n2,a,8,2,30\n3,c,0,3,5\n"
	openbJobs  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,1000,1024,4,1000,\np1,1000,1024,1,500,\n"
	openbNodes = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,8,P100\nn1,64000,262144,8,P100\n"
)

func file(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSimulate_philly(t *testing.T) {
	jobs := file(t, "jobs.csv", phillyJobs)
	args := []string{"simulate", "--trace", jobs, "--nodes", "1x8", "--policy", "fifo", "--policy", "preemptive"}
	require.Equal(t, strings.TrimPrefix(`
MEASURE fifo preemptive
GPU allocation 100.00 % 100.00 %
wait, mean 6h59m 6h10m
wait, median 9h59m 7h59m
wait, 99 % below 10h58m 8h58m
wait, longest 10h58m 8h58m
completion, mean 10h49m 10h00m
completion, median 10h59m 9h28m
completion, 99 % below 11h28m 11h35m
utilisation 100.00 % 99.28 %
fairness of users (Jain) 0.998 0.997
slowdown of the worst user 11.97 10.05
preemptions 0 1
GPU-hours that they cost 0 1
jobs 3 3`, "\n"), clitest.Squeeze(clitest.Done(t, args...)))
	var got struct {
		Runs []map[string]any `json:"runs"`
	}
	require.NoError(t, json.Unmarshal([]byte(clitest.Done(t, append(args, "-o", "json")...)), &got))
	require.Len(t, got.Runs, 2)
	for _, field := range []string{
		"policy", "seed", "gpu_allocation_percent", "wait_mean_seconds", "wait_p99_seconds", "completion_mean_seconds", "utilisation", "jain", "preemptions",
	} {
		require.Contains(t, got.Runs[0], field)
	}
	require.Equal(t, "fifo", got.Runs[0]["policy"])
	require.Equal(t, (599.0+658)*60/3, got.Runs[0]["wait_mean_seconds"])
}

func TestSimulate_saysWhatItDrops(t *testing.T) {
	trace := file(t, "jobs.csv", phillyJobs)
	stdout, stderr, code := clitest.Run(t, "simulate", "--trace", trace, "--nodes", "1x8", "--policy", "fifo", "-o", "json")
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "dropped")
	require.Contains(t, stdout, `"dropped": 0`)
	large := file(t, "large.csv", phillyJobs+"9,d,64,4,60\n")
	stdout, stderr, code = clitest.Run(t, "simulate", "--trace", large, "--nodes", "1x8", "--policy", "fifo", "-o", "json")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "dropped: 1 of 4 jobs are too large for the inventory (job")
	require.Contains(t, stdout, `"dropped": 1`)
}

func TestSimulate_svgIsWellFormed(t *testing.T) {
	out := clitest.Done(t, "simulate", "--trace", file(t, "jobs.csv", phillyJobs), "--nodes", "2x8", "-o", "svg")
	decoder := xml.NewDecoder(strings.NewReader(out))
	for {
		if _, err := decoder.Token(); err != nil {
			require.EqualError(t, err, "EOF")
			break
		}
	}
	require.Contains(t, out, ">wait, mean<")
}

func TestSimulate_openb(t *testing.T) {
	var got struct {
		Runs []struct {
			Seed       int     `json:"seed"`
			Allocation float64 `json:"gpu_allocation_percent"`
		} `json:"runs"`
	}
	out := clitest.Done(t, "simulate", "--trace", file(t, "pods.csv", openbJobs), "--inventory", file(t, "nodes.csv", openbNodes),
		"--policy", "default", "--until-demand", "0.5", "--seed", "42", "--seed", "43", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Runs, 2)
	require.Equal(t, 43, got.Runs[1].Seed)
	require.InDelta(t, 50, got.Runs[0].Allocation, 25)
}

func TestSimulate_misuse(t *testing.T) {
	jobs, pods := file(t, "jobs.csv", phillyJobs), file(t, "pods.csv", openbJobs)
	for want, args := range map[string][]string{
		"--policy best: it must be fifo, easy, conservative, shortest, attained, preemptive, default": {"--trace", jobs, "--policy", "best"},
		"--format swf: it must be openb or philly":                                                    {"--trace", jobs, "--format", "swf"},
		"--nodes 8: it must be nodes x GPUs of each, such as 140x8":                                   {"--trace", jobs, "--nodes", "8"},
		"--until-demand 2: it must be above 0 and at most 1.3":                                        {"--trace", pods, "--until-demand", "2"},
		"-o png: it must be table, json, yaml or svg":                                                 {"--trace", jobs, "-o", "png"},
		"the format openb needs --inventory: a CSV file with sn, cpu_milli, memory_mib, gpu, model":   {"--trace", pods},
		`job "0" needs 1 nodes with 8 GPUs, and 0 nodes of the inventory could hold a part of it`:     {"--trace", jobs, "--nodes", "3x4"},
	} {
		require.Contains(t, clitest.Fails(t, append([]string{"simulate"}, args...)...), want)
	}
}

func TestSimulate_flagsThatDoNotGoTogether(t *testing.T) {
	jobs := file(t, "jobs.csv", phillyJobs)
	for want, args := range map[string][]string{
		"which jobs? Give --trace JOBS.csv, or --from-cluster for those of your cluster": {},
		"--from-cluster takes the jobs and the nodes of the cluster: leave out --trace":  {"--from-cluster", "--trace", jobs},
		"--from-cluster takes the jobs and the nodes of the cluster: leave out --nodes":  {"--from-cluster", "--nodes", "2x8"},
		"--from-cluster takes the jobs and the nodes of the cluster: leave out --limits": {"--from-cluster", "--limits", "2"},
		"--since goes with --from-cluster only":                                          {"--trace", jobs, "--since", "3d"},
		"--save goes with --from-cluster only":                                           {"--trace", jobs, "--save", "x.csv"},
		"--policy best: it must be fifo, easy":                                           {"--from-cluster", "--policy", "best"},
		"--since yesterday: it must be a duration such as 2h or 3d, a day such as":       {"--from-cluster", "--since", "yesterday"},
	} {
		require.Contains(t, clitest.Fails(t, append([]string{"simulate"}, args...)...), want)
	}
}
