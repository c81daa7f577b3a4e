package request

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is the value of a flag: a Go duration, in which days and weeks may come first: "90s", "2h", "3d", "1w2d12h".
type Duration time.Duration

var daysPattern = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(.*)$`)

// String implements pflag.Value.
func (d *Duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *Duration) Set(text string) error {
	said, err := ParseDuration(text)
	*d = Duration(said)
	return err
}

// ParseDuration parses what Duration takes.
func ParseDuration(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration such as 90s, 2h, 3d or 1w", text)
	parts := daysPattern.FindStringSubmatch(text)
	weeks, _ := strconv.Atoi(parts[1]) // empty: none
	days, _ := strconv.Atoi(parts[2])
	all := time.Duration(7*weeks+days) * 24 * time.Hour
	if parts[3] == "" && parts[1]+parts[2] != "" {
		return all, nil
	}
	rest, err := time.ParseDuration(parts[3])
	if err != nil || all > 0 && rest < 0 || rest > math.MaxInt64-all {
		return 0, wrong
	}
	return all + rest, nil
}

// Ahead parses a time to come: one such as 2026-07-01T08:00:00Z, a day, or a duration from now on.
func Ahead(text string, now time.Time) (time.Time, error) { return moment(text, now, 1) }

// Ago parses a time that is past: one such as 2026-07-01T08:00:00Z, a day, or a duration back from now.
func Ago(text string, now time.Time) (time.Time, error) { return moment(text, now, -1) }

func moment(text string, now time.Time, sign time.Duration) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	d, err := ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%s: it must be a duration such as 2h or 3d, a day such as 2026-07-01, or a time such as 2026-07-01T08:00:00Z", text)
	}
	return now.Add(sign * d), nil
}
