package ir

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span. As JSON it is text such as "90s", "1h30m", "7d" or "2w", or a number of seconds.
type Duration time.Duration

// MaxDuration bounds every time span of a program: a year.
const MaxDuration = 366 * 24 * time.Hour

// ParseDuration reads a time span.
func ParseDuration(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is no time span: write 30s, 5m, 1h30m, 7d or 2w", clip(text))
	rest, total := strings.TrimSpace(text), time.Duration(0)
	for _, unit := range []struct {
		suffix string
		long   time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, wrong
		}
		if n > uint64(MaxDuration/unit.long) {
			return 0, tooLong(text)
		}
		if total += time.Duration(n) * unit.long; total > MaxDuration {
			return 0, tooLong(text)
		}
		if rest = after; rest == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, wrong
	}
	if d > MaxDuration-total {
		return 0, tooLong(text)
	}
	return total + d, nil
}

func tooLong(text string) error {
	return fmt.Errorf("%s is too long: at most %d days are allowed", clip(text), MaxDuration/(24*time.Hour))
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil {
		if seconds < 0 || seconds > MaxDuration.Seconds() {
			return fmt.Errorf("a time span of %g seconds: 0 to %.0f are allowed", seconds, MaxDuration.Seconds())
		}
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a time span has to be text or a number of seconds, not %s", clip(string(data)))
	}
	span, err := ParseDuration(text)
	*d = Duration(span)
	return err
}

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }
