package policy

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/mindcoordinator/mind/fsm/work/domains"
)

// named are the values of a policy by their names in REST, in the order in which they are shown.
func (p *Policy) named() [16][2]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	seconds := func(ns int64) string { return number(ns / int64(time.Second)) }
	grace, _ := p.GraceOfHours()
	return [...][2]string{
		{"order", p.Order.String()},
		{"half_life_seconds", seconds(p.HalfLife)},
		{"aging_step_seconds", seconds(p.AgingStep)},
		{"preemption.enabled", strconv.FormatBool(p.Preemption.Enabled)},
		{"preemption.protect_seconds", seconds(p.Preemption.Protect)},
		{"preemption.protect_from_priority_seconds", seconds(p.Preemption.ProtectFromPriority)},
		{"preemption.ratio", number(int64(p.Preemption.Ratio))},
		{"preemption.every_seconds", seconds(p.Preemption.Every)},
		{"preemption.restart_cost_seconds", seconds(p.Preemption.RestartCost)},
		{"backfill.reservations", number(int64(p.Backfill.Reservations))},
		{"backfill.after_seconds", seconds(p.Backfill.After)},
		{"hold_seconds", seconds(p.Hold)},
		{"topology.levels", cmp.Or(p.Levels, domains.Default)},
		{"hours_grace_percent", number(int64(grace))},
		{"keep_finished", keepFinished(p.KeepFinished)},
		{"keep_specs_seconds", seconds(p.KeptSpecs())},
	}
}

func keepFinished(n uint32) string {
	if n == 0 {
		return "the default"
	}
	return strconv.FormatUint(uint64(n), 10)
}

// Changes says what another policy would change: "order FIFO -> SHORTEST, backfill.reservations 8 -> 0".
func (p *Policy) Changes(to *Policy) string {
	var changed []string
	is := to.named()
	for i, was := range p.named() {
		if was[1] != is[i][1] {
			changed = append(changed, was[0]+" "+was[1]+" -> "+is[i][1])
		}
	}
	if len(changed) == 0 {
		return "nothing"
	}
	return strings.Join(changed, ", ")
}
