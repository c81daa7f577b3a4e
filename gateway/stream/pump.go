package stream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/mindcoordinator/mind/api/status"
	"github.com/mindcoordinator/mind/gateway/fanout"
)

// feed is a stream of a coordinator that can be resumed after a cursor.
type feed[M any] struct {
	// open starts after the cursor; without one, where the caller asked to start, or at the start.
	open func(ctx context.Context, opening bool, cursor string) (grpc.ServerStreamingClient[M], error)
	// cursor returns the cursor of the last entry of a message, or "".
	cursor func(m *M) string
	// begin, if set, makes the cursor of a stream that started at a state index and has sent nothing yet.
	begin func(index uint64) string
	// piece encodes the events of a message.
	piece func(m *M) fanout.Piece
	// longest is the age at which the feed is reopened; 0: never.
	longest time.Duration
}

// Pauses between attempts to reopen a stream.
const (
	minReopen = 20 * time.Millisecond
	maxReopen = time.Second
)

// pump opens the feed after a cursor, passes on its messages, and reopens it after the last entry when it breaks. It gives
// up after failing for giveUp. It closes out at the end, which comes soon after ctx ends.
func pump[M any](ctx context.Context, f feed[M], opening bool, cursor string, giveUp time.Duration, out chan<- fanout.News) {
	defer close(out)
	tell := func(n fanout.News) bool {
		select {
		case out <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	pause, since := minReopen, time.Now()
	for {
		progress, err := once(ctx, f, opening, &cursor, tell)
		if ctx.Err() != nil {
			return
		}
		if progress {
			pause, since = minReopen, time.Now()
		}
		if err == nil || !worthReopening(err) || time.Since(since) > giveUp {
			tell(fanout.News{Kind: fanout.Ended, Err: err})
			return
		}
		if !tell(fanout.News{Kind: fanout.Lost, Err: err}) {
			return
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxReopen)
	}
}

// once opens the feed and passes on its messages until it ends. progress reports that the coordinator accepted the call.
func once[M any](ctx context.Context, f feed[M], opening bool, cursor *string, tell func(fanout.News) bool) (progress bool, err error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the upstream when the reader has gone
	if f.longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.longest)
		defer cancel()
		defer func() {
			// The end of its time is not the coordinator's fault: there may have been nothing to send.
			progress = progress || err != nil && outer.Err() == nil && ctx.Err() != nil
		}()
	}
	stream, err := f.open(ctx, opening, *cursor)
	if err != nil {
		return false, err
	}
	if !tell(fanout.News{Kind: fanout.Asked}) {
		return false, ctx.Err()
	}
	if header, err := stream.Header(); err == nil && header != nil {
		progress = true
		n := fanout.News{Kind: fanout.Begun, Index: indexOf(header)}
		if f.begin != nil && n.Index > 0 && *cursor == "" {
			// The place is sent at once, so that a caller whose connection breaks now can resume without missing anything.
			*cursor = f.begin(n.Index)
			n.Piece = placePiece(*cursor)
		}
		if !tell(n) {
			return progress, ctx.Err()
		}
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return progress, nil
		}
		if err != nil {
			return progress, err
		}
		progress = true
		if c := f.cursor(m); c != "" {
			*cursor = c
		}
		if !tell(fanout.News{Kind: fanout.Told, Piece: f.piece(m)}) {
			return progress, ctx.Err()
		}
	}
}

// worthReopening reports whether another coordinator, or the same one later, may answer better.
func worthReopening(err error) bool {
	switch grpcstatus.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted:
		return true
	case codes.Internal, codes.Unknown:
		// The transport's error when a connection breaks within a message. The loop leaves a coordinator that keeps failing
		// when it gives up.
		return true
	}
	return false
}

func indexOf(header metadata.MD) uint64 {
	if v := header.Get(status.KeyIndex); len(v) > 0 {
		if n, err := strconv.ParseUint(v[0], 10, 64); err == nil {
			return n
		}
	}
	return 0
}
