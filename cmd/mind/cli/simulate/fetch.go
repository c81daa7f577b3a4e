package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	coordinators "github.com/mindcoordinator/mind/api/client"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/operator"
	"github.com/mindcoordinator/mind/cmd/mind/cli/request"
	"github.com/mindcoordinator/mind/coordinator/recovery"
	"github.com/mindcoordinator/mind/fsm"
	"github.com/mindcoordinator/mind/simulate/history"
)

// Source selects the coordinators that send a history, and the part of it to use.
type Source struct {
	operator.Flags
	Since string
}

// Bind adds the flags to a command.
func (s *Source) Bind(cmd *cobra.Command) {
	s.Flags.Bind(cmd, 10*time.Minute)
	cmd.Flags().StringVar(&s.Since, "since", "", "only what happened since: a duration such as 72h or 30d, or a time such as 2026-01-31T08:00:00Z (default: all that the cluster remembers)")
}

// fetchTries limits how often the state is requested if the connection to its coordinator breaks.
const fetchTries = 3

// Fetch reads the history of the cluster: its whole state, which the coordinators send to operators only. It is kept in
// memory only.
func (s *Source) Fetch(ctx context.Context) (*history.History, error) {
	since, err := parseSince(s.Since, time.Now())
	if err != nil {
		return nil, exit.Misuse(err)
	}
	c, err := s.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var v *fsm.View
	for try := 1; ; try++ {
		if v, err = received(within, c); err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if try == fetchTries || status.Code(err) != codes.Unavailable {
			return nil, s.Explain(err)
		}
	}
	h := history.Of(v, since)
	if len(h.Jobs) == 0 {
		if since.IsZero() {
			return nil, errors.New("there is nothing to simulate: the cluster knows of no job that has run or waits")
		}
		return nil, fmt.Errorf("there is nothing to simulate: the cluster knows of no job that has run since %s, or waits: give an earlier --since", since.UTC().Format(time.RFC3339))
	}
	if len(h.Cluster.Nodes) == 0 {
		return nil, errors.New("there is nothing to simulate with: the cluster has no node that is not lost or drained (mind nodes)")
	}
	return h, nil
}

// received reads the state from one coordinator.
func received(ctx context.Context, c *coordinators.Client) (*fsm.View, error) {
	stream, err := c.Operators().SaveSnapshot(ctx, &v1.SaveSnapshotRequest{})
	if err != nil {
		return nil, err
	}
	from := &parts{next: stream.Recv}
	v, _, err := recovery.Read(from)
	if from.err != nil && !errors.Is(from.err, io.EOF) {
		return nil, from.err // more useful than the error that the state ends early
	}
	return v, err
}

// parts is a reader of the bytes of a stream.
type parts struct {
	next func() (*v1.SaveSnapshotResponse, error)
	rest []byte
	err  error
}

func (p *parts) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		part, err := p.next()
		p.rest, p.err = part.GetData(), err
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// parseSince parses the time of a flag; it returns the zero time for none.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := request.Ago(text, now)
	switch {
	case err != nil:
		return at, fmt.Errorf("--since %w", err)
	case !at.Before(now):
		return at, fmt.Errorf("--since %s: it is not in the past", text)
	}
	return at, nil
}
