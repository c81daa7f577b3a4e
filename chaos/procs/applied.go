package procs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Applied returns the highest log index that a coordinator reports as applied.
func (c *Cluster) Applied(ctx context.Context, p Component) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTPAddr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking %s what it has applied: %w", p.Name(), err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "mind_raft_applied_index "); ok {
			index, err := strconv.ParseFloat(value, 64)
			return uint64(index), err
		}
	}
	return 0, errors.Join(fmt.Errorf("%s does not say what it has applied", p.Name()), lines.Err())
}

// WaitCaughtUp waits until every coordinator has applied the highest index that any of them had at the time of the
// call.
func (c *Cluster) WaitCaughtUp(ctx context.Context) error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	var newest uint64
	for _, p := range info.Coordinators {
		index, err := c.Applied(ctx, p)
		if err != nil {
			return err
		}
		newest = max(newest, index)
	}
	for _, p := range info.Coordinators {
		err := poll(ctx, fmt.Sprintf("%s to apply index %d", p.Name(), newest), func() bool {
			index, err := c.Applied(ctx, p)
			return err == nil && index >= newest
		})
		if err != nil {
			return err
		}
	}
	return nil
}
