package jobcache

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// table is the published name of the table. Its contents were published, too, but not the names of its columns.
const table = "mod_scaimind_jobs"

// columns in the order of row. The first is the key; the last two decide whether a row is replaced, and must stay last.
var columns = []string{
	"job_id", "tenant_id", "name", "status", "priority",
	"training_config", "data_config", "resource_config", "output_config", "scheduling_config",
	"error_type", "error_message", "created_at", "started_at", "finished_at", "updated_at", "revision", "cached_at",
}

// row is a job in the order of columns.
func (c *Cache) row(job *v1.Job, now time.Time) []any {
	training := job.GetTrainingConfig()
	if len(training.GetEnvironment()) > 0 {
		// Dashboards have more readers than those who may see environments.
		training = proto.CloneOf(training)
		training.Environment = nil
	}
	var errorType any
	if t := job.GetErrorType(); t != 0 {
		errorType = t.String()
	}
	return []any{
		job.GetJobId(), job.GetTenantId(), job.GetName(), job.GetStatus().String(), job.GetPriority(),
		c.blob(training), c.blob(job.GetDataConfig()), c.blob(job.GetResourceConfig()), c.blob(job.GetOutputConfig()), c.blob(job.GetSchedulingConfig()),
		errorType, orNull(job.GetErrorMessage()),
		moment(job.GetCreatedAt()), moment(job.GetStartedAt()), moment(job.GetFinishedAt()), moment(job.GetUpdatedAt()),
		int64(job.GetRevision()), stamp(now),
	}
}

// blob is a configuration as JSON; NULL when the job has none.
func (c *Cache) blob(m proto.Message) any {
	if !m.ProtoReflect().IsValid() {
		return nil
	}
	return string(c.config.Encode(nil, m))
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func moment(t *timestamppb.Timestamp) any {
	if t == nil {
		return nil
	}
	return stamp(t.AsTime())
}

// stamp writes a time, in UTC, as the database reads and sorts it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
