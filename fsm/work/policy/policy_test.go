package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPolicy_defaultIsValid(t *testing.T) {
	p := DefaultPolicy()
	require.NoError(t, p.Validate())
}

func TestPolicy_saysWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(p *Policy){
		"order 9 is none: use FIFO, SHORTEST or ATTAINED":                                       func(p *Policy) { p.Order = 9 },
		"half_life_seconds is 0: use 60 to 315360000":                                           func(p *Policy) { p.HalfLife = 0 },
		"aging_step_seconds is 1: use 60 to 31536000":                                           func(p *Policy) { p.AgingStep = int64(time.Second) },
		"preemption.protect_seconds is -1: use 0 to 31536000":                                   func(p *Policy) { p.Preemption.Protect = -int64(time.Second) },
		"preemption.protect_from_priority_seconds is 31536001: use 0 to 31536000":               func(p *Policy) { p.Preemption.ProtectFromPriority = int64(31536001 * time.Second) },
		"preemption.every_seconds is 0: use 1 to 86400":                                         func(p *Policy) { p.Preemption.Every = 0 },
		"preemption.restart_cost_seconds is 172800: use 0 to 86400":                             func(p *Policy) { p.Preemption.RestartCost = int64(48 * time.Hour) },
		"backfill.after_seconds is -60: use 0 to 31536000":                                      func(p *Policy) { p.Backfill.After = -int64(time.Minute) },
		"hours_grace_percent is -2: use 0 to 100, or -1 to stop no job":                         func(p *Policy) { n := int32(-2); p.HoursGrace = &n },
		"hours_grace_percent is 101: use 0 to 100, or -1 to stop no job":                        func(p *Policy) { n := int32(101); p.HoursGrace = &n },
		"keep_finished is 99: use 100 to 10000000":                                              func(p *Policy) { p.KeepFinished = 99 },
		"keep_specs_seconds is 60: use 3600 to 315360000":                                       func(p *Policy) { p.KeepSpecs = int64(time.Minute) },
		"backfill.reservations is 1001: use 0 to 1000":                                          func(p *Policy) { p.Backfill.Reservations = 1001 },
		"preemption.ratio is 1: use 2 to 1000 (below 2, jobs would preempt each other in turn)": func(p *Policy) { p.Preemption.Ratio = 1 },
	} {
		p := DefaultPolicy()
		spoil(&p)
		require.EqualError(t, p.Validate(), want)
	}
	p := DefaultPolicy()
	p.AgingStep = 0
	require.NoError(t, p.Validate(), "without aging")
}

func TestParseOrder(t *testing.T) {
	for _, o := range []Order{OrderFIFO, OrderShortest, OrderAttained} {
		back, err := ParseOrder(o.String())
		require.NoError(t, err)
		require.Equal(t, o, back)
	}
	_, err := ParseOrder("shortest")
	require.EqualError(t, err, `order "shortest" is none: use FIFO, SHORTEST or ATTAINED`)
}
