// Package words translates the reasons of the replicated state from codes into English. It is the only place where
// reasons become sentences: users, logs and the audit log show the results of [Of].
//
// A sentence begins in lower case unless it begins with a name, has no full stop at its end, and reads well alone, in
// brackets, and after a colon. It says what to do if the reader can do something. Sentences may be improved at any
// time: they are made on reading, and no hash depends on them.
//
// In a sentence {0} is the first parameter, {0 node} a number with its noun ("1 node", "2 nodes"), {0 is|are} the verb
// form for a number, and {0q} a text in quotes.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/fsm/reason"
)

// Of returns a reason in English. A text from a person or an agent is returned unchanged.
func Of(r reason.Reason) string {
	c := r.Code()
	if c == 0 {
		return r.Plain()
	}
	kinds, _ := c.Kinds()
	params := r.Params()
	if len(params) != len(kinds) {
		return r.String() // A code of a newer version of mind.
	}
	if write, ok := written[c]; ok {
		return write(params)
	}
	sentence, ok := sentences[c]
	if !ok {
		return r.String()
	}
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(sentence, "{")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		var place string
		place, sentence, _ = strings.Cut(rest, "}")
		b.WriteString(fill(place, kinds, params))
	}
}

// fill returns the text for a pair of braces.
func fill(place string, kinds []reason.Kind, params []reason.Param) string {
	number, noun, counted := strings.Cut(place, " ")
	number, quoted := strings.CutSuffix(number, "q")
	i, _ := strconv.Atoi(number)
	p := params[i]
	switch one, many, verb := strings.Cut(noun, "|"); {
	case verb && p.Number == 1:
		return one
	case verb:
		return many
	case counted:
		return count(p.Number, noun)
	case kinds[i] == reason.KindReason:
		return Of(p.Reason())
	case quoted:
		return strconv.Quote(p.Text)
	}
	return kinds[i].Show(p)
}

// count returns a number with its noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// written are the reasons that need more than a sentence with braces.
var written map[reason.Code]func(p []reason.Param) string

func init() { // Some of them use Of, which reads the map.
	written = map[reason.Code]func(p []reason.Param) string{
		reason.Demand: demand,
		reason.DependencyDidNotSucceed: func(p []reason.Param) string {
			return p[0].Text + ", which it depends on, was to succeed and " + ended(p[1])
		},
		reason.DependencyDidNotFail: func(p []reason.Param) string {
			return p[0].Text + ", which it depends on, was to fail and " + ended(p[1])
		},
		reason.WaitsForNodes:    waitsForNodes,
		reason.WaitsForSettling: waitsForSettling,
		reason.FewMayTakeOver:   fewMayTakeOver,
		reason.QuotaOfGPUs:      quotaOfGPUs,
		reason.NoSuchGPUType:    noSuchGPUType,
		reason.TasksNotLost:     tasksNotLost,
		reason.Vouched:          vouched,
		reason.Forced:           forced,
		reason.QueueSetTo:       queueSetTo,
		reason.QuotaSetTo:       quotaSetTo,
		reason.Denied:           denied,
		reason.WithDeadline:     withDeadline,
		reason.NotRetained:      notRetained,
		reason.FilesGone:        filesGone,
		reason.WouldDelay:       wouldDelay,
		reason.StartReserved:    startReserved,
	}
}

// ended describes how a job ended.
func ended(state reason.Param) string {
	switch s := v1.JobState_Value(state.Number); s {
	case v1.JobState_SUCCEEDED:
		return "succeeded"
	case v1.JobState_FAILED:
		return "failed"
	case v1.JobState_CANCELED:
		return "was canceled"
	case v1.JobState_LOST:
		return "was lost"
	default:
		return "is " + s.String()
	}
}

// demand describes the needs of a job: "4 x H100 and 8 CPUs on each of 2 nodes".
func demand(p []reason.Param) string {
	gpus, kind, fraction, memory, linked := p[0].Number, p[1].Text, p[2].Number, p[3].Number, p[4].Number != 0
	cpus, ram, nodes, labels := p[5].Number, p[6].Number, p[7].Number, p[8].Text
	var parts []string
	device := ""
	switch {
	case fraction > 0 && kind == "":
		device = reason.KindGPUs.Show(p[2]) + " of one GPU"
	case fraction > 0:
		device = reason.KindGPUs.Show(p[2]) + " of one " + kind
	case gpus > 0 && kind == "":
		device = count(gpus, "GPU")
	case gpus > 0:
		device = fmt.Sprintf("%d x %s", gpus, kind)
	}
	if device != "" && memory > 0 {
		device += fmt.Sprintf(" of %d MiB", memory)
	}
	if device != "" && linked {
		device += " linked by NVLink"
	}
	if device != "" {
		parts = append(parts, device)
	}
	if cpus > 0 {
		parts = append(parts, count(cpus, "CPU"))
	}
	if ram > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB of memory", ram))
	}
	out := strings.Join(parts, " and ")
	if nodes > 1 {
		out += fmt.Sprintf(" on each of %d nodes", nodes)
	} else {
		out += " on one node"
	}
	if labels != "" {
		out += " with " + labels
	}
	return out
}

// awaited returns the nodes that may still run tasks of a job, and what users can do.
func awaited(p []reason.Param) (nodes, do string) {
	if p[0].Number > 1 {
		return "nodes " + p[1].Text, "bring them back, or run `mind node forget` for each"
	}
	return "node " + p[1].Text, "bring it back, or run `mind node forget " + p[1].Text + "`"
}

func waitsForNodes(p []reason.Param) string {
	nodes, do := awaited(p)
	return "waits for " + nodes + ", which may still run an earlier attempt, and no other node may replace it: " + do
}

func waitsForSettling(p []reason.Param) string {
	nodes, _ := awaited(p)
	return "waits a few seconds, until the nodes that may replace " + nodes + " have been in session for long enough"
}

func fewMayTakeOver(p []reason.Param) string {
	nodes, do := awaited(p[2:])
	return fmt.Sprintf("%s; only %s may replace %s, which may still run an earlier attempt: %s", Of(p[0].Reason()), count(p[1].Number, "node"), nodes, do)
}

func quotaOfGPUs(p []reason.Param) string {
	said := fmt.Sprintf("tenant quota: %s of %s in use", reason.KindGPUs.Show(p[0]), count(p[1].Number, "GPU"))
	if p[0].Number < 1000*p[1].Number {
		said += ", and it needs " + reason.KindGPUs.Show(p[2])
	}
	return said
}

func noSuchGPUType(p []reason.Param) string {
	if p[1].Text == "" {
		return fmt.Sprintf("no node has GPUs of type %q: no node has any GPU", p[0].Text)
	}
	return fmt.Sprintf("no node has GPUs of type %q: the types there are: %s", p[0].Text, p[1].Text)
}

func tasksNotLost(p []reason.Param) string {
	if p[0].Number == 0 {
		return "nothing runs there, and it was silent for less than a minute"
	}
	var said []string
	for i, text := range []string{"no retry left", "not been silent for as long as the job waits", "no node that could replace theirs"} {
		if n := p[i+1].Number; n > 0 {
			have := "have"
			if n == 1 {
				have = "has"
			}
			said = append(said, fmt.Sprintf("%d %s %s", n, have, text))
		}
	}
	return "of " + count(p[0].Number, "task") + ", " + strings.Join(said, ", ")
}

func notRetained(p []reason.Param) string {
	said := "it is not the newest checkpoint"
	if p[0].Number != 1 {
		said = fmt.Sprintf("it is not among the newest %s", count(p[0].Number, "checkpoint"))
	}
	switch p[1].Number {
	case 0:
		return said
	case 1:
		return said + ", and not the best"
	}
	return said + fmt.Sprintf(", and not among the best %d", p[1].Number)
}

func filesGone(p []reason.Param) string {
	said := "node " + p[0].Text + " does not have its files any more"
	if p[1].Text != "" {
		said += ": " + Of(p[1].Reason())
	}
	return said
}

func vouched(p []reason.Param) string { return after("vouched", "for "+Of(p[0].Reason()), p[0]) }

func forced(p []reason.Param) string { return after("force", Of(p[0].Reason()), p[0]) }

func withDeadline(p []reason.Param) string {
	deadline := "deadline " + reason.KindDuration.Show(p[0])
	if p[1].Text == "" {
		return deadline
	}
	return deadline + ": " + Of(p[1].Reason())
}

// after returns a word alone, or with the words of a person.
func after(word, said string, p reason.Param) string {
	if p.Text == "" {
		return word
	}
	return word + " " + said
}

func queueSetTo(p []reason.Param) string {
	said := fmt.Sprintf("weight %d", p[0].Number)
	if p[1].Number != 0 {
		said += fmt.Sprintf(", max_gpus %d", p[1].Number)
	}
	return said
}

func quotaSetTo(p []reason.Param) string {
	var said []string
	for i, of := range []string{"max_gpus", "max_running_jobs", "max_jobs"} {
		if p[i].Number >= 0 {
			said = append(said, fmt.Sprintf("%s %d", of, p[i].Number))
		}
	}
	if len(said) == 0 {
		return "no limits"
	}
	return strings.Join(said, ", ")
}

// denied puts the reason first, and text that an unknown caller may have chosen last.
func denied(p []reason.Param) string {
	said := p[0].Text
	switch times, lasted := uint64(p[1].Number), time.Duration(p[2].Number); {
	case times == 1:
		said += ", once"
	case lasted < time.Second:
		said += fmt.Sprintf(", %d times within a second", times)
	default:
		said += fmt.Sprintf(", %d times in %s", times, lasted.Round(time.Second))
	}
	if by := p[3].Text; by != "" {
		said += ", by " + by
	}
	if from := p[4].Text; from != "" {
		said += ", from " + from
	}
	return said
}

// wouldDelay describes the time limit with which a job would delay no reserved start.
func wouldDelay(p []reason.Param) string {
	return "would delay a job that comes first and is to start by " + moment(p[0]) + ": set a time limit that ends before then (--time-limit)"
}

// startReserved describes when and where a job starts at the latest.
func startReserved(p []reason.Param) string {
	return "starts at the latest at " + moment(p[0]) + " on " + p[1].Text + ": reserved"
}

// moment formats a time in Unix seconds.
func moment(p reason.Param) string { return time.Unix(p.Number, 0).UTC().Format(time.RFC3339) }
