package wire

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// These functions build requests from queries. A request is valid only if there are no faults.

// ListJobs reads the filter of a list of jobs.
func ListJobs(query url.Values) (*v1.ListJobsRequest, []Fault) {
	var faults []Fault
	request := &v1.ListJobsRequest{
		Queue: query.Get("queue"), PageToken: query.Get("page_token"), OrderBy: query.Get("order_by"), Label: query["label"],
		Search: query.Get("search"), User: query.Get("user"),
	}
	request.Status, faults = Statuses(query, faults)
	request.Fields, faults = fields(query, (&v1.Job{}).ProtoReflect().Descriptor(), faults)
	facets, faults := Bool(query, "facets", faults)
	request.Facets = facets != nil && *facets
	for _, label := range request.Label {
		if key, _, ok := strings.Cut(label, "="); !ok || key == "" {
			faults = append(faults, Fault{"label", fmt.Sprintf("must be key=value, not %q", Printable(label))})
		}
	}
	request.PageSize, faults = Int(query, "page_size", 1, 100, faults)
	return request, faults
}

// fields reads the names of the fields of a message to answer with, separated by commas.
func fields(query url.Values, d protoreflect.MessageDescriptor, faults []Fault) (names []string, _ []Fault) {
	if query.Get("fields") == "" {
		return nil, faults
	}
	for name := range strings.SplitSeq(query.Get("fields"), ",") {
		name = strings.TrimSpace(name)
		switch {
		case d.Fields().ByName(protoreflect.Name(name)) == nil:
			faults = append(faults, Fault{"fields", fmt.Sprintf("a %s has no field %q", strings.ToLower(string(d.Name())), Printable(name))})
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	return names, faults
}

// ListJobTasks reads the filter of a list of elements of a job array.
func ListJobTasks(query url.Values) (*v1.ListJobTasksRequest, []Fault) {
	request := &v1.ListJobTasksRequest{PageToken: query.Get("page_token")}
	var faults []Fault
	request.Status, faults = Statuses(query, faults)
	request.PageSize, faults = Int(query, "page_size", 1, 1000, faults)
	return request, faults
}

// ListEvaluations reads the filter of a list of evaluations.
func ListEvaluations(query url.Values) (*v1.ListEvaluationsRequest, []Fault) {
	request := &v1.ListEvaluationsRequest{JobId: query.Get("job_id"), PageToken: query.Get("page_token")}
	var faults []Fault
	request.Status, faults = Statuses(query, faults)
	request.PageSize, faults = Int(query, "page_size", 1, 100, faults)
	return request, faults
}

// CompareEvaluations reads the evaluations to compare.
func CompareEvaluations(query url.Values) (*v1.CompareEvaluationsRequest, []Fault) {
	request := &v1.CompareEvaluationsRequest{}
	for _, given := range query["ids"] {
		for id := range strings.SplitSeq(given, ",") {
			if id = strings.TrimSpace(id); id != "" {
				request.EvaluationIds = append(request.EvaluationIds, id)
			}
		}
	}
	if len(request.GetEvaluationIds()) < 2 {
		return nil, []Fault{{"ids", "must name at least two evaluations, as in ?ids=eval_1,eval_2"}}
	}
	return request, nil
}

// GetQueue reads the filter of a list of waiting jobs.
func GetQueue(query url.Values) (*v1.GetQueueRequest, []Fault) {
	request := &v1.GetQueueRequest{Queue: query.Get("queue")}
	var faults []Fault
	request.Limit, faults = Int(query, "limit", 1, 1000, nil)
	return request, faults
}

// ListAuditRecords reads the filter of a list of audit records.
func ListAuditRecords(query url.Values, now time.Time) (*v1.ListAuditRecordsRequest, []Fault) {
	request := &v1.ListAuditRecordsRequest{
		UserId: query.Get("user_id"), Action: query.Get("action"), Object: query.Get("object"), Outcome: query.Get("outcome"),
		PageToken: query.Get("page_token"), TenantId: query.Get("tenant_id"),
	}
	var faults []Fault
	request.PageSize, faults = Int(query, "page_size", 1, 1000, nil)
	request.Since, faults = Time(query, "since", now, faults)
	request.Until, faults = Time(query, "until", now, faults)
	return request, faults
}

// ExplainJob reads the hypothetical changes, and the time.
func ExplainJob(query url.Values, now time.Time) (*v1.ExplainJobRequest, []Fault) {
	request := &v1.ExplainJobRequest{WhatIf: query["what_if"]}
	var faults []Fault
	request.Remedies, faults = Bool(query, "remedies", faults)
	raw := query.Get("at")
	if index, err := strconv.ParseUint(raw, 10, 64); err == nil {
		if request.AtIndex = index; index == 0 {
			faults = append(faults, Fault{"at", "the first entry of the log is 1"})
		}
		return request, faults
	}
	if raw != "" {
		at, ok := Since(raw, now)
		// A number that is not whole is neither an index nor, beside one, clearly seconds.
		if _, err := strconv.ParseFloat(raw, 64); !ok || err == nil {
			return request, append(faults, Fault{"at", fmt.Sprintf(
				"must be the index of a log entry, a time in RFC 3339, or a duration back from now such as 10m, not %q", Printable(raw))})
		}
		request.AtTime = timestamppb.New(at)
	}
	return request, faults
}

// GetJobSeries reads which series of a job are wanted.
func GetJobSeries(query url.Values) (*v1.GetJobSeriesRequest, []Fault) {
	request := &v1.GetJobSeriesRequest{Names: query["name"]}
	var faults []Fault
	request.Points, faults = Int(query, "points", 1, 2000, nil)
	request.Attempts, faults = Ints(query, "attempt", 1, math.MaxInt32, faults)
	request.Ranks, faults = Ints(query, "rank", 0, math.MaxInt32, faults)
	return request, faults
}

// StreamJobLogs reads the requested part of a job's log.
func StreamJobLogs(query url.Values, now time.Time) (*v1.StreamJobLogsRequest, []Fault) {
	request := &v1.StreamJobLogsRequest{}
	var faults []Fault
	number := func(name string) *int32 {
		if query.Get(name) == "" {
			return nil
		}
		var n int32
		n, faults = Int(query, name, 0, math.MaxInt32, faults)
		return &n
	}
	request.Tail = number("tail")
	request.Rank = number("rank")
	if attempt := number("attempt"); attempt != nil {
		request.Attempt = *attempt
	}
	request.Follow, faults = Bool(query, "follow", faults)
	if raw := query.Get("since"); raw != "" {
		since, ok := Since(raw, now)
		if !ok {
			faults = append(faults, Fault{"since", fmt.Sprintf(
				"must be a time in RFC 3339, a number of seconds back from now, or a duration such as 10m, not %q", Printable(raw))})
		} else {
			request.Since = timestamppb.New(since)
		}
	}
	return request, faults
}

// Listing reads the filter of a list of Cores, executions, checkpoints or events: the fields of its request, by their names. statuses are
// those that may be asked for.
func Listing[M proto.Message](fresh func() M, statuses ...string) func(query url.Values) (M, []Fault) {
	return func(query url.Values) (M, []Fault) {
		request := fresh()
		var faults []Fault
		m := request.ProtoReflect()
		for i := range m.Descriptor().Fields().Len() {
			f := m.Descriptor().Fields().Get(i)
			name := string(f.Name())
			switch {
			case name == "status" && query.Get(name) != "" && !slices.Contains(statuses, query.Get(name)):
				faults = append(faults, Fault{name, fmt.Sprintf("must be one of %s, not %q", strings.Join(statuses, ", "), Printable(query.Get(name)))})
			case f.Kind() == protoreflect.StringKind && query.Get(name) != "":
				m.Set(f, protoreflect.ValueOfString(query.Get(name)))
			case f.Kind() == protoreflect.Int32Kind:
				var n int32
				n, faults = Int(query, name, 1, 500, faults)
				m.Set(f, protoreflect.ValueOfInt32(n))
			}
		}
		return request, faults
	}
}
