package reason

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// definition is what the state knows of a code.
type definition struct {
	name string
	// kinds are those of the parameters.
	kinds string
	// before is the format of the sentence that stood in the state below Level; empty: see writeBefore.
	before string
}

// Before is the sentence that stood in the state below Level.
func (r Reason) Before() string {
	c, params, ok := r.parse()
	def, known := c.def()
	switch {
	case !ok:
		return string(r)
	case !known || len(params) != len(def.kinds):
		return r.String()
	case def.before == "":
		return writeBefore(c, params)
	}
	args := make([]any, len(params))
	for i, p := range params {
		switch k := Kind(def.kinds[i]); k {
		case KindReason:
			args[i] = p.Reason().Before()
		case KindNumber:
			args[i] = p.Number
		default:
			args[i] = k.Show(p)
		}
	}
	return fmt.Sprintf(def.before, args...)
}

// writeBefore makes the sentences that no format can.
func writeBefore(c Code, p []Param) string {
	switch c {
	case Demand:
		return beforeDemand(p)
	case NeedsAbleNodes:
		return beforeNeedsAbleNodes(p)
	case NeedsFreeNodes:
		return beforeNeedsFreeNodes(p)
	case WaitsForNodes:
		return beforeWaitsForNodes(p)
	case WaitsForSettling:
		return beforeWaitsForSettling(p)
	case FewMayTakeOver:
		return beforeFewMayTakeOver(p)
	case QuotaOfGPUs:
		return beforeQuotaOfGPUs(p)
	case NoSuchGPUType:
		return beforeNoSuchGPUType(p)
	case TasksNotLost:
		return beforeTasksNotLost(p)
	case Vouched:
		return beforeVouched(p)
	case Forced:
		return beforeForced(p)
	case QueueSetTo:
		return beforeQueueSetTo(p)
	case QuotaSetTo:
		return beforeQuotaSetTo(p)
	case Denied:
		return beforeDenied(p)
	}
	return c.String()
}

func beforeDemand(p []Param) string {
	gpus, kind, fraction, memory, linked, cpus, ram, nodes, labels := p[0].Number, p[1].Text, p[2].Number, p[3].Number, p[4].Number, p[5].Number, p[6].Number, p[7].Number, p[8].Text
	out := ""
	if kind == "" {
		kind = "GPU"
	}
	switch {
	case fraction > 0:
		out = strconv.FormatFloat(float64(fraction)/1000, 'g', -1, 64) + " of one " + kind
	case gpus > 0:
		out = fmt.Sprintf("%d x %s", gpus, kind)
	}
	if out != "" && memory > 0 {
		out += fmt.Sprintf(" of %d MiB", memory)
	}
	if linked != 0 {
		out += " linked by NVLink"
	}
	and := func(more string) {
		if out != "" {
			out += " and "
		}
		out += more
	}
	if cpus > 0 {
		and(beforeCount(cpus, "CPU"))
	}
	if ram > 0 {
		and(fmt.Sprintf("%d MiB of memory", ram))
	}
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

func beforeCount(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

// beforeWhich names the nodes that may still run tasks of a job (their number, their names), and says what to do.
func beforeWhich(p []Param) (which, way string) {
	if p[0].Number > 1 {
		return "nodes " + p[1].Text + ", which may still run its last attempts", "bring them back, or `mind node forget` them"
	}
	return "node " + p[1].Text + ", which may still run its last attempt", fmt.Sprintf("bring it back, or `mind node forget %s`", p[1].Text)
}

func beforeWaitsForNodes(p []Param) string {
	which, way := beforeWhich(p)
	return "waits for " + which + ": " + way
}

func beforeWaitsForSettling(p []Param) string {
	which, _ := beforeWhich(p)
	return "waits a few seconds, until those that may take over from " + which + ", have been in touch for long enough"
}

func beforeFewMayTakeOver(p []Param) string {
	which, way := beforeWhich(p[2:])
	return fmt.Sprintf("%s; only %s may take over from %s: %s", p[0].Reason().Before(), beforeCount(p[1].Number, "node"), which, way)
}

func beforeNeedsAbleNodes(p []Param) string {
	return fmt.Sprintf("needs %s; only %s could take a task of it", p[0].Reason().Before(), beforeCount(p[1].Number, "node"))
}

func beforeNeedsFreeNodes(p []Param) string {
	return fmt.Sprintf("needs %s; %s have that free", p[0].Reason().Before(), beforeCount(p[1].Number, "node"))
}

func beforeQuotaOfGPUs(p []Param) string {
	said := fmt.Sprintf("tenant quota: %s of %d GPUs in use", KindGPUs.Show(p[0]), p[1].Number)
	if p[0].Number < 1000*p[1].Number {
		said += fmt.Sprintf(", and it needs %s", KindGPUs.Show(p[2]))
	}
	return said
}

func beforeNoSuchGPUType(p []Param) string {
	types := p[1].Text
	if types == "" {
		types = "none"
	}
	return fmt.Sprintf("no node has GPUs of type %q: the types there are: %s", p[0].Text, types)
}

func beforeTasksNotLost(p []Param) string {
	said := []string{}
	for i, text := range []string{"have no retry left", "have not been unheard of for as long as their jobs wait", "could be taken over by no node"} {
		if n := p[i+1].Number; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, text))
		}
	}
	if p[0].Number == 0 {
		said = append(said, "nothing runs there, and it was silent for less than a minute")
	}
	return fmt.Sprintf("of %d tasks, ", p[0].Number) + strings.Join(said, ", ")
}

func beforeVouched(p []Param) string {
	return strings.TrimSpace("vouched for " + p[0].Reason().Before())
}

func beforeForced(p []Param) string { return strings.TrimSpace("force " + p[0].Reason().Before()) }

func beforeQueueSetTo(p []Param) string {
	said := fmt.Sprintf("weight %d", p[0].Number)
	if p[1].Number != 0 {
		said += fmt.Sprintf(", max_gpus %d", p[1].Number)
	}
	return said
}

func beforeQuotaSetTo(p []Param) string {
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

func beforeDenied(p []Param) string {
	said := p[0].Text
	switch count, lasted := p[1].Number, p[2].Number; {
	case count == 1:
		said += ", once"
	case lasted < int64(time.Second):
		said += fmt.Sprintf(", %d times within a second", uint64(count))
	default:
		said += fmt.Sprintf(", %d times in %s", uint64(count), time.Duration(lasted).Round(time.Second))
	}
	if p[3].Text != "" {
		said += ", by " + p[3].Text
	}
	if p[4].Text != "" {
		said += ", from " + p[4].Text
	}
	return said
}
