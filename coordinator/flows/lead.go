package flows

import (
	"context"
	"errors"
	"time"

	"github.com/mindcoordinator/mind/coordinator/replica"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/flowverbs"
)

const (
	// pace is how often the leader looks for contents to archive, and gonePace for those to remove from the archive.
	pace     = time.Second
	gonePace = 10 * time.Minute
	// atATime bounds the contents of one round, and within the time of one.
	atATime = 64
	within  = 30 * time.Second
	// restAfter is how long the leader leaves an archive alone that failed.
	restAfter = 10 * time.Second
)

// Lead brings contents into the archive, and takes those out whose versions went, until the term ends.
func (s *Service) Lead(ctx context.Context) {
	if s.store == nil {
		return
	}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var rest, nextGone time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if now.Before(rest) {
				continue
			}
			err := s.archive(ctx)
			if err == nil && !now.Before(nextGone) {
				nextGone = now.Add(gonePace)
				err = s.collect(ctx, now)
			}
			if err != nil && ctx.Err() == nil {
				rest = now.Add(restAfter)
				s.Log.Warn("the archive of flows: the next attempt follows", "after", restAfter.String(), "error", err)
			}
		}
	}
}

// archive writes contents that the archive does not have, and notes those that it has then.
func (s *Service) archive(ctx context.Context) error {
	v := s.State.View()
	var c flowverbs.ArchiveVersions
	tenants := map[flowverbs.ArchivedVersion]string{}
	names := map[flowverbs.ArchivedVersion]string{}
	var fault error
	for _, row := range v.Unarchived(atATime) {
		f, ok := v.Flow(row.Flow)
		if !ok {
			continue
		}
		writing, cancel := context.WithTimeout(ctx, within)
		fault = s.write(writing, f.Tenant, row)
		cancel()
		if fault != nil {
			break
		}
		a := flowverbs.ArchivedVersion{Flow: row.Flow, Number: row.Number, Digest: row.Content.Digest}
		c.Versions = append(c.Versions, a)
		tenants[a], names[a] = f.Tenant, row.Name
	}
	if len(c.Versions) == 0 {
		return fault
	}
	if _, err := replica.Propose[flowverbs.Result](ctx, s.State, c); err != nil {
		return errors.Join(fault, err)
	}
	// A version that went while it was written was not noted, so nothing else would take it out of the archive.
	now := s.State.View()
	for _, a := range c.Versions {
		if _, ok := now.FlowVersion(a.Flow, a.Number); !ok && !wentLater(now, a) {
			fault = errors.Join(fault, s.remove(ctx, keyOfContent(tenants[a], a.Flow, names[a])))
		}
	}
	return fault
}

// wentLater reports whether a version went after it was noted.
func wentLater(v *fsm.View, a flowverbs.ArchivedVersion) bool {
	for g := range v.GoneContents() {
		if g.Flow == a.Flow && g.Number == a.Number {
			return true
		}
	}
	return false
}

func (s *Service) remove(ctx context.Context, key string) error {
	removing, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.store.Delete(removing, key)
}

// collect takes the contents of versions that went a while ago out of the archive.
func (s *Service) collect(ctx context.Context, now time.Time) error {
	for {
		var c flowverbs.ForgetContents
		var fault error
		for g := range s.State.View().GoneContents() {
			if len(c.Versions) == flowverbs.MaxArchived || fault != nil || ctx.Err() != nil {
				break
			}
			if g.At+flows.KeepGone > now.UnixNano() {
				continue
			}
			if fault = s.remove(ctx, keyOfContent(g.Tenant, g.Flow, g.Name)); fault == nil {
				c.Versions = append(c.Versions, flowverbs.ArchivedVersion{Flow: g.Flow, Number: g.Number})
			}
		}
		if len(c.Versions) == 0 {
			return fault
		}
		if _, err := replica.Propose[flowverbs.Result](ctx, s.State, c); err != nil || fault != nil {
			return errors.Join(fault, err)
		}
	}
}
