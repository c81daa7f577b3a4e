package yardstick

import (
	"slices"
	"sync"
	"time"
)

// Result is the result of a load of closed-loop clients.
type Result struct {
	Ops       int           `json:"ops"`
	Errors    int           `json:"errors"`
	FirstErr  string        `json:"first_error,omitempty"`
	Elapsed   time.Duration `json:"elapsed"`
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50"`
	P99       time.Duration `json:"p99"`
	Max       time.Duration `json:"max"`
}

// Drive makes n clients call op again as soon as it returns, for d, after a warm-up of a fifth of d.
func Drive(n int, d time.Duration, op func(client int) error) Result {
	var res Result
	var mu sync.Mutex
	var all []time.Duration
	var clients sync.WaitGroup
	begin := time.Now().Add(d / 5)
	end := begin.Add(d)
	for c := range n {
		clients.Go(func() {
			var took []time.Duration
			var errs int
			var first error
			for {
				start := time.Now()
				if !start.Before(end) {
					break
				}
				err := op(c)
				now := time.Now()
				switch {
				case err != nil:
					errs++
					if first == nil {
						first = err
					}
				case !start.Before(begin) && now.Before(end):
					took = append(took, now.Sub(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			res.Errors += errs
			if first != nil && res.FirstErr == "" {
				res.FirstErr = first.Error()
			}
		})
	}
	clients.Wait()
	res.Ops = len(all)
	res.Elapsed = d
	res.PerSecond = float64(len(all)) / d.Seconds()
	res.P50, res.P99, res.Max = Quantiles(all)
	return res
}

// Quantiles returns the median, the 99th percentile and the maximum.
func Quantiles(all []time.Duration) (p50, p99, most time.Duration) {
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
}
