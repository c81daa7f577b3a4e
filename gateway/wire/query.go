package wire

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Statuses parses the statuses that filter a list.
func Statuses(query url.Values, faults []Fault) ([]v1.JobStatus_Value, []Fault) {
	var out []v1.JobStatus_Value
	statuses := schemaOf((&v1.ListJobsRequest{}).ProtoReflect().Descriptor()).fields["status"]
	for _, name := range query["status"] {
		n, ok := statuses.enum[name]
		if !ok {
			faults = append(faults, Fault{"status", fmt.Sprintf("must be one of %s, not %q", statuses.allowed, Printable(name))})
			continue
		}
		out = append(out, v1.JobStatus_Value(n))
	}
	return out, faults
}

// Int parses a number from a query; 0 if it is missing.
func Int(query url.Values, name string, low, high int64, faults []Fault) (int32, []Fault) {
	raw := query.Get(name)
	if raw == "" {
		return 0, faults
	}
	n, err := strconv.ParseInt(raw, 10, 32)
	if err != nil || n < low || n > high {
		return 0, append(faults, Fault{name, fmt.Sprintf("must be a whole number from %d to %d, not %q", low, high, Printable(raw))})
	}
	return int32(n), faults
}

// Ints parses the numbers that a query gives under one name.
func Ints(query url.Values, name string, low, high int64, faults []Fault) (all []int32, _ []Fault) {
	for _, raw := range query[name] {
		n, err := strconv.ParseInt(raw, 10, 32)
		if err != nil || n < low || n > high {
			return nil, append(faults, Fault{name, fmt.Sprintf("must be a whole number from %d to %d, not %q", low, high, Printable(raw))})
		}
		all = append(all, int32(n))
	}
	return all, faults
}

// Time parses a time from a query; nil if it is missing.
func Time(query url.Values, name string, now time.Time, faults []Fault) (*timestamppb.Timestamp, []Fault) {
	raw := query.Get(name)
	if raw == "" {
		return nil, faults
	}
	at, ok := Since(raw, now)
	if !ok {
		return nil, append(faults, Fault{name, fmt.Sprintf("must be a time as 2026-01-31T08:00:00Z, seconds back from now, or a duration such as 10m, not %q", Printable(raw))})
	}
	return timestamppb.New(at), faults
}

// maxDays is longer than any cluster keeps data.
const maxDays = 36_500

// back parses a duration back from the present, such as 10m, or whole days, such as 30d.
func back(raw string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(raw, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= maxDays
	}
	d, err := time.ParseDuration(raw)
	return d, err == nil && d >= 0
}

// Numbers of seconds from unixTimesFrom on are Unix times.
const unixTimesFrom = 1_000_000_000

// Since parses a time: an absolute one, a duration back from now, or a number of seconds back from now.
func Since(raw string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339Nano, raw); err == nil {
		return countable(t), timestamppb.New(t).IsValid()
	}
	if d, ok := back(raw); ok {
		return now.Add(-d), true
	}
	seconds, err := strconv.ParseFloat(raw, 64)
	if err != nil || !(seconds >= 0) || seconds > 1e11 {
		return time.Time{}, false
	}
	if seconds >= unixTimesFrom {
		return countable(time.Unix(int64(seconds), 0)), true
	}
	return now.Add(-time.Duration(seconds * float64(time.Second))), true
}

// countable clamps a time to the range of nanoseconds, the unit of coordinators and agents: a time that is centuries
// away is before or after all data anyway.
func countable(t time.Time) time.Time {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

func Bool(query url.Values, name string, faults []Fault) (*bool, []Fault) {
	raw := query.Get(name)
	if raw == "" {
		return nil, faults
	}
	v, err := strconv.ParseBool(raw)
	if err != nil {
		return nil, append(faults, Fault{name, fmt.Sprintf("must be true or false, not %q", Printable(raw))})
	}
	return &v, faults
}
