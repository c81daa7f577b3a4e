package procs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// NoSpareError is returned if the cluster would lose its quorum without one more coordinator.
type NoSpareError struct {
	// Voters is the number of voters, Unreachable has the ones that could not be reached.
	Voters      int
	Unreachable []string
}

// Error implements error. It says what is missing, and what to do.
func (e *NoSpareError) Error() string {
	need := e.Voters/2 + 1
	if len(e.Unreachable) == 0 {
		return fmt.Sprintf("a cluster of %d loses its quorum with any coordinator: attack a cluster of three or more", e.Voters)
	}
	return fmt.Sprintf("only %d of %d voting coordinators can be reached, and %d are needed: the cluster would stop if one more were taken away; bring %s back first",
		e.Voters-len(e.Unreachable), e.Voters, need, strings.Join(e.Unreachable, " and "))
}

// spareWithin is how long a coordinator that was just started may take to become ready.
const spareWithin = 10 * time.Second

// SpareOne checks whether the others keep their quorum without one coordinator. It returns nil or a *NoSpareError. It
// asks each voter itself, because the cluster may not know yet that one has just died.
func (c *Cluster) SpareOne(ctx context.Context) error {
	for began := time.Now(); ; {
		voters, unreachable, err := c.voters(ctx)
		if err == nil && voters-len(unreachable) > voters/2+1 {
			return nil
		}
		hopeless := err == nil && !slices.ContainsFunc(unreachable, c.mayComeBack)
		if hopeless || time.Since(began) > spareWithin || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("finding out whether a coordinator can be spared: %w", err)
			}
			return &NoSpareError{voters, unreachable}
		}
		select {
		case <-time.After(10 * pause):
		case <-ctx.Done():
		}
	}
}

// mayComeBack reports whether a coordinator runs, or its supervisor will start it again.
func (c *Cluster) mayComeBack(id string) bool {
	info, err := c.Info()
	if err != nil || c.supervised {
		return true
	}
	return slices.ContainsFunc(info.Coordinators, func(p Component) bool { return p.ID == id && runs(p.PID, p.Argv) })
}

// voters returns the number of voting coordinators, and the names of those that do not report that they are ready.
func (c *Cluster) voters(ctx context.Context) (voters int, unreachable []string, err error) {
	info, err := c.Info()
	if err != nil {
		return 0, nil, err
	}
	var cluster struct {
		Coordinators []struct {
			ID    string `json:"id"`
			Voter bool   `json:"voter"`
		} `json:"coordinators"`
	}
	rest := NewREST(info)
	rest.http = c.http
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// A stale read is enough: there may be no quorum for another one.
	if err := rest.Get(ask, "/cluster?consistency=stale", &cluster); err != nil {
		return 0, nil, err
	}
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for _, member := range cluster.Coordinators {
		if !member.Voter {
			continue
		}
		voters++
		all.Go(func() {
			at := slices.IndexFunc(info.Coordinators, func(p Component) bool { return p.ID == member.ID })
			if at >= 0 && c.Ready(ctx, info.Coordinators[at]) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			unreachable = append(unreachable, member.ID)
		})
	}
	all.Wait()
	slices.Sort(unreachable)
	return voters, unreachable, nil
}
