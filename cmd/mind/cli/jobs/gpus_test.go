package jobs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mindcoordinator/mind/cmd/mind/cli/clitest"
)

const gpuJob = `{"job_id":"job_1","status":"TRAINING","attempt":2,"started_at":"2026-01-31T08:00:00Z","nodes":["n1","n2"],"gpus":["GPU-1","GPU-2"],"resource_config":{"gpu_count":2,"node_count":2}}`

// sensor is a series of one point.
func sensor(rank, gpu int, name string, last, mean, most float64) string {
	return fmt.Sprintf(`{"name":"gpu%d.%s","attempt":2,"rank":%d,"unit":"x","points":[{"time":"2026-01-31T08:01:00Z","min":0,"max":%g,"mean":%g,"last":%g,"count":3}]}`, gpu, name, rank, most, mean, last)
}

func TestJob_showsWhatItsGPUsDo(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, gpuJob))
	asked := map[string][]string{}
	g.On("GET /jobs/job_1/metrics/series", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		clitest.Answer(200, `{"series":[`+strings.Join([]string{
			sensor(1, 3, "power_watts", 412.4, 398, 700),
			sensor(0, 3, "utilization_ratio", 0.97, 0.911, 1), sensor(0, 3, "memory_used_bytes", 64<<30, 60<<30, 70<<30), sensor(0, 3, "power_watts", 640, 600, 700),
			sensor(0, 2, "utilization_ratio", 0, 0.5, 1),
		}, ",")+`],"missing":[]}`)(w, r)
	})
	text := clitest.Squeeze(clitest.Done(t, "job", "job_1"))
	require.Contains(t, text, "GPUs of attempt 2:\nRANK GPU BUSY (MEAN) MEMORY (PEAK) POWER (MEAN)\n0 2 0% (50%) - -\n"+
		"0 3 97% (91%) 64.0 GiB (70.0 GiB) 640 W (600 W)\n1 3 - - 412 W (398 W)")
	require.Equal(t, []string{"2"}, asked["attempt"])
	require.Equal(t, []string{"1"}, asked["points"])
	require.Contains(t, asked["name"], "gpu7.power_watts")
	require.LessOrEqual(t, len(asked["name"]), 100, "more are refused")
	require.Empty(t, asked["rank"])

	stdout := clitest.Done(t, "job", "job_1", "-o", "json")
	require.NotContains(t, stdout, "GPUs of attempt")
}

func TestJob_ofManyGPUsShowsARowForEachRank(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, strings.Replace(gpuJob, `"node_count":2`, `"node_count":40`, 1)))
	var all []string
	for rank := range 3 {
		for gpu := range 8 {
			all = append(all, sensor(rank, gpu, "utilization_ratio", 0.5, 0.25, 1), sensor(rank, gpu, "memory_used_bytes", 1<<30, 1<<30, 2<<30), sensor(rank, gpu, "power_watts", 100, 50, 200))
		}
	}
	var ranks []string
	g.On("GET /jobs/job_1/metrics/series", func(w http.ResponseWriter, r *http.Request) {
		ranks = r.URL.Query()["rank"]
		clitest.Answer(200, `{"series":[`+strings.Join(all, ",")+`]}`)(w, r)
	})
	text := clitest.Squeeze(clitest.Done(t, "job", "job_1"))
	require.Contains(t, text, "\n2 all 8 50% (25%) 8.0 GiB (16.0 GiB) 800 W (400 W)\nand ranks 32 to 39; see")
	require.Len(t, ranks, 32)
}

func TestJob_saysWhyTheUseOfItsGPUsIsUnknown(t *testing.T) {
	g := clitest.NewGateway(t)
	g.On("GET /jobs/job_1", clitest.Answer(200, gpuJob))
	g.On("GET /jobs/job_1/metrics/series", clitest.Answer(200, `{"series":[],"missing":[]}`))
	g.On("GET /cluster/nodes/n1", clitest.Answer(200, `{"node_id":"n1","gpus":[{"index":0,"simulated":true,"utilization":0,"memory_used_mb":0}]}`))
	require.Contains(t, clitest.Done(t, "job", "job_1"), "\nGPU use unknown: simulated GPUs have no sensors\n")

	g.On("GET /cluster/nodes/n1", clitest.Answer(200, `{"node_id":"n1","gpus":[{"index":0,"simulated":false}]}`))
	require.Contains(t, clitest.Done(t, "job", "job_1"), "\nGPU use unknown: no sensor was read yet; agents read them every 5 s\n")

	g.On("GET /jobs/job_1/metrics/series", clitest.Refuse(404, "NOT_FOUND", "the series of job job_1, attempt 2, rank 0, are missing: node n1 is lost"))
	require.Contains(t, clitest.Done(t, "job", "job_1"), "GPU use unknown: the series of job job_1, attempt 2, rank 0, are missing: node n1 is lost")

	for _, without := range []string{`"started_at":"2026-01-31T08:00:00Z",`, `"gpu_count":2,`, `"nodes":["n1","n2"],`} {
		g.On("GET /jobs/job_1", clitest.Answer(200, strings.Replace(gpuJob, without, "", 1)))
		require.NotContains(t, clitest.Done(t, "job", "job_1"), "GPU use", "without %s", without)
	}
	g.On("GET /jobs/job_1", clitest.Answer(200, strings.Replace(gpuJob, "TRAINING", "COMPLETED", 1)))
	require.NotContains(t, clitest.Done(t, "job", "job_1"), "GPU use", "of a job that is over, nothing can become known")
}
