package result

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Result is the result of an attack.
type Result struct {
	Scenario string
	// Judged: the evidence was checked; without that no promise counts as kept.
	Judged bool
	// Faults has the number of faults by kind.
	Faults map[string]int
	// Rounds is the number of rounds, Failovers the number of rounds after which another coordinator led.
	Rounds, Failovers int
	// Steady and Submitted are the numbers of checked jobs: jobs that ran throughout the attack, and short jobs that
	// were submitted meanwhile.
	Steady, Submitted int
	// Replaced is the number of attempts that replaced lost ones, as they should.
	Replaced int

	// Harmed are jobs that did not run as often as they should, or did not end as they should.
	Harmed []string
	// Lost are jobs that were acknowledged but that the cluster does not know.
	Lost []string
	// Doubled are keys that made more than one job.
	Doubled []string
	// DoubleLive are pairs of processes that were alive at the same time but must not be: of one job, or on one GPU.
	DoubleLive []string
	// Lineage has the errors in the lineage of checkpoints.
	Lineage []string
	// Leaked are processes and GPUs that were not freed.
	Leaked []string
	// Leaderless are times in which no coordinator led although one should, or not for long enough.
	Leaderless []string
	// Executions is the number of executions of flows that were checked; Flows are steps of them that did not happen once, and executions
	// that did not complete.
	Executions int
	Flows      []string
	// Lines is the number of served lines that were compared with the printed ones.
	Lines, LinesLost, LinesRepeated int
	Logs                            []string

	// Outages are the outages of writes: from each fault to the first accepted write that was sent after it.
	Outages []time.Duration
	// ClientErrors is the number of requests that ended in an error although they could have been answered in time.
	ClientErrors int
	// Notes are remarks for people.
	Notes []string
}

// Fault counts a fault.
func (v *Result) Fault(kind string) {
	if v.Faults == nil {
		v.Faults = map[string]int{}
	}
	v.Faults[kind]++
}

// Outage returns the quantile q of the outages (1 is the longest), or 0 if there were none.
func (v Result) Outage(q float64) time.Duration {
	if len(v.Outages) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v.Outages))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Broken returns an error that names the broken promises, or nil if all were kept.
func (v Result) Broken() error {
	var errs []error
	for _, p := range v.promises() {
		if len(p.list) > 0 {
			errs = append(errs, fmt.Errorf("%d %s, such as %s", len(p.list), p.broken, strings.Join(p.list[:min(3, len(p.list))], "; ")))
		}
	}
	return errors.Join(errs...)
}

// Jobs returns the number of checked jobs.
func (v Result) Jobs() int { return v.Steady + v.Submitted }

// String returns the line with the figures.
func (v Result) String() string {
	kinds := make([]string, 0, len(v.Faults))
	for _, kind := range slices.Sorted(maps.Keys(v.Faults)) {
		kinds = append(kinds, fmt.Sprintf("%s:%d", kind, v.Faults[kind]))
	}
	faults := strings.Join(kinds, ",")
	if faults == "" {
		faults = "none"
	}
	return fmt.Sprintf("scenario=%s rounds=%d faults=%s failovers=%d jobs=%d harmed=%d lost=%d doubled=%d double_live=%d replaced=%d lineage_faults=%d "+
		"executions=%d flow_faults=%d lines=%d lines_lost=%d lines_repeated=%d leaked=%d leaderless=%d client_errors=%d outages=%d outage_p50_ms=%d outage_p99_ms=%d outage_max_ms=%d",
		v.Scenario, v.Rounds, faults, v.Failovers, v.Jobs(), len(v.Harmed), len(v.Lost), len(v.Doubled), len(v.DoubleLive), v.Replaced, len(v.Lineage), v.Executions, len(v.Flows),
		v.Lines, v.LinesLost, v.LinesRepeated, len(v.Leaked), len(v.Leaderless), v.ClientErrors,
		len(v.Outages), v.Outage(0.5).Milliseconds(), v.Outage(0.99).Milliseconds(), v.Outage(1).Milliseconds())
}

// Sum adds up the results of several attacks under one name.
func Sum(name string, all ...Result) Result {
	sum := Result{Scenario: name, Judged: len(all) > 0}
	for _, v := range all {
		sum.Judged = sum.Judged && v.Judged
		for kind, n := range v.Faults {
			if sum.Faults == nil {
				sum.Faults = map[string]int{}
			}
			sum.Faults[kind] += n
		}
		sum.Rounds += v.Rounds
		sum.Failovers += v.Failovers
		sum.Steady += v.Steady
		sum.Submitted += v.Submitted
		sum.Replaced += v.Replaced
		sum.Executions += v.Executions
		sum.Lines += v.Lines
		sum.LinesLost += v.LinesLost
		sum.LinesRepeated += v.LinesRepeated
		sum.ClientErrors += v.ClientErrors
		sum.Outages = append(sum.Outages, v.Outages...)
		for _, l := range []struct{ to, from *[]string }{
			{&sum.Harmed, &v.Harmed},
			{&sum.Lost, &v.Lost},
			{&sum.Doubled, &v.Doubled},
			{&sum.DoubleLive, &v.DoubleLive},
			{&sum.Lineage, &v.Lineage},
			{&sum.Leaked, &v.Leaked},
			{&sum.Leaderless, &v.Leaderless},
			{&sum.Flows, &v.Flows},
			{&sum.Logs, &v.Logs},
			{&sum.Notes, &v.Notes},
		} {
			for _, text := range *l.from {
				*l.to = append(*l.to, v.Scenario+": "+text)
			}
		}
	}
	return sum
}

// Report returns, for each promise, a line that says whether it was kept.
func (v Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d jobs checked (%d ran through the attack), %d faults, %d failovers, %d attempts replaced\n", v.Jobs(), v.Steady, v.faults(), v.Failovers, v.Replaced)
	for _, p := range v.promises() {
		if len(p.list) == 0 {
			word := "kept   "
			if !v.Judged {
				word = "unknown"
			}
			fmt.Fprintf(&b, "%s %s\n", word, p.promise)
			continue
		}
		fmt.Fprintf(&b, "BROKEN  %s: %d times\n", p.promise, len(p.list))
		for _, text := range p.list[:min(5, len(p.list))] {
			fmt.Fprintf(&b, "        %s\n", text)
		}
	}
	if v.Executions > 0 {
		fmt.Fprintf(&b, "%d executions checked\n", v.Executions)
	}
	fmt.Fprintf(&b, "%d lines of log compared with what was printed: %d lost, %d repeated\n", v.Lines, v.LinesLost, v.LinesRepeated)
	if len(v.Outages) > 0 {
		fmt.Fprintf(&b, "writes waited after %d faults: %.2f s (median), %.2f s (p99), %.2f s (longest)\n",
			len(v.Outages), v.Outage(0.5).Seconds(), v.Outage(0.99).Seconds(), v.Outage(1).Seconds())
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (v Result) faults() (n int) {
	for _, k := range v.Faults {
		n += k
	}
	return n
}

type promise struct {
	promise, broken string
	list            []string
}

func (v Result) promises() []promise {
	return []promise{
		{"no job is harmed, and every exit code is exact", "jobs harmed", v.Harmed},
		{"no acknowledged job is lost", "acknowledged jobs lost", v.Lost},
		{"no key makes two jobs", "keys made two jobs", v.Doubled},
		{"no job has two live processes of one rank, no GPU two owners", "times two processes were alive where one may be", v.DoubleLive},
		{"checkpoints are of one descent, and attempts resume from the newest", "faults in the descent of checkpoints", v.Lineage},
		{"no process and no GPU leaks", "processes or GPUs leaked", v.Leaked},
		{"however slow the machine, a leader is found soon, and stays", "times no leader was found, or it did not stay", v.Leaderless},
		{"every step of an execution happens once, and executions complete", "steps of executions did not happen once", v.Flows},
		{"every line of a log is served once, in order", "logs were not served as they were printed", v.Logs},
	}
}
