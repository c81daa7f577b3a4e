package gateway

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mindcoordinator/mind/api/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
)

// feed is a stream of a coordinator that can be gone on with after a cursor.
type feed[M any] struct {
	open func(ctx context.Context, cursor string) (grpc.ServerStreamingClient[M], error)
	// cursor returns that of the last entry of a message, or "".
	cursor func(m *M) string
	// begin, if there is one, makes the cursor of a stream that began at a state index and told nothing yet.
	begin func(index uint64) string
	// frames appends the events of a message.
	frames func(b []byte, m *M) []byte
	// longest is the time after which the feed is opened anew; 0: never.
	longest time.Duration
}

// news is what the pump tells the writer.
type news[M any] struct {
	kind  newsKind
	m     *M
	index uint64
	err   error
}

type newsKind int

const (
	asked   newsKind = iota // a coordinator has the call; nothing came yet
	begun                   // a coordinator has taken the call
	message                 // m is there
	lost                    // the upstream broke and will be opened again
	ended                   // err says how; nil: all was sent
)

// Messages that wait for a slow reader. Past them the upstream waits.
const feedBacklog = 16

// Pauses between attempts to open a stream again.
const (
	minReopen = 20 * time.Millisecond
	maxReopen = time.Second
)

// pump opens the feed, passes on what comes, and opens it again after the last
// entry when it breaks. It gives up after giveUp of trying in vain. It closes
// out when it is done, which it is soon after ctx ended.
func pump[M any](ctx context.Context, f feed[M], giveUp time.Duration, out chan<- news[M]) {
	defer close(out)
	tell := func(n news[M]) bool {
		select {
		case out <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	cursor, pause, since := "", minReopen, time.Now()
	for {
		progress, err := once(ctx, f, &cursor, tell)
		if ctx.Err() != nil {
			return
		}
		if progress {
			pause, since = minReopen, time.Now()
		}
		if err == nil || !worthReopening(err) || time.Since(since) > giveUp {
			tell(news[M]{kind: ended, err: err})
			return
		}
		if !tell(news[M]{kind: lost, err: err}) {
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

// once opens the feed and passes on what comes until it ends. progress says
// that the coordinator took the call.
func once[M any](ctx context.Context, f feed[M], cursor *string, tell func(news[M]) bool) (progress bool, err error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the upstream when the reader has gone
	if f.longest > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.longest)
		defer cancel()
		defer func() {
			// That its time was over is no fault of the coordinator, which may just have had nothing to say.
			progress = progress || err != nil && outer.Err() == nil && ctx.Err() != nil
		}()
	}
	stream, err := f.open(ctx, *cursor)
	if err != nil {
		return false, err
	}
	if !tell(news[M]{kind: asked}) {
		return false, ctx.Err()
	}
	if header, err := stream.Header(); err == nil && header != nil {
		progress = true
		if index := indexOf(header); f.begin != nil && index > 0 && *cursor == "" {
			*cursor = f.begin(index)
		}
		if !tell(news[M]{kind: begun, index: indexOf(header)}) {
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
		if !tell(news[M]{kind: message, m: m}) {
			return progress, ctx.Err()
		}
	}
}

// worthReopening says that another coordinator, or the same one later, may
// answer better.
func worthReopening(err error) bool {
	switch grpcstatus.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted:
		return true
	case codes.Internal, codes.Unknown:
		// What the transport says when a connection is cut in mid-message. A
		// coordinator that keeps failing is left when giving up is due.
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
