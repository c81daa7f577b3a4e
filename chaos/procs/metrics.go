package procs

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Gauge reads one series of a component, by the base of its URLs: a name with its labels, if it has any.
func Gauge(ctx context.Context, base, name string) (float64, error) {
	sum, found, err := total(ctx, base, func(series string) bool { return series == name })
	if err == nil && !found {
		err = fmt.Errorf("%s has no metric %s", base, name)
	}
	return sum, err
}

// Sum adds up all series of a metric of a component; 0: it has none.
func Sum(ctx context.Context, base, name string) (float64, error) {
	sum, _, err := total(ctx, base, func(series string) bool {
		metric, _, _ := strings.Cut(series, "{")
		return metric == name
	})
	return sum, err
}

func total(ctx context.Context, base string, wanted func(series string) bool) (sum float64, found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := sharedClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if at := strings.LastIndexByte(line, ' '); at > 0 && wanted(line[:at]) {
			value, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				return 0, false, fmt.Errorf("the metric %q of %s: %w", line, base, err)
			}
			sum, found = sum+value, true
		}
	}
	return sum, found, nil
}
