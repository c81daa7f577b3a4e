package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// senders is how many packs are sent at a time.
const senders = 3

// sender sends the pieces of a tree.
type sender struct {
	client *rest.Client
	root   *os.Root
	tree   *uploads.Tree
	bar    *bar

	mu    sync.Mutex
	sent  int64
	files map[string]bool // of which something was sent
}

// part is a piece of a file that is to be sent.
type part struct {
	file     *uploads.File
	sum      string
	at, size int64
}

// send sends the missing pieces, many small ones together.
func (s *sender) send(ctx context.Context, missing []string) error {
	lacks := make(map[string]bool, len(missing))
	for _, sum := range missing {
		lacks[sum] = true
	}
	var packs [][]part
	var pack []part
	room, total := int64(uploads.PackSize), int64(0)
	for i := range s.tree.Files {
		f := &s.tree.Files[i]
		for n, sum := range f.Pieces {
			if !lacks[sum] {
				continue
			}
			delete(lacks, sum)
			at := int64(n) * uploads.PieceSize
			p := part{f, sum, at, min(uploads.PieceSize, f.Size-at)}
			if p.size > room {
				packs, pack, room = append(packs, pack), nil, uploads.PackSize
			}
			pack = append(pack, p)
			room -= p.size
			total += p.size
		}
	}
	if len(pack) > 0 {
		packs = append(packs, pack)
	}
	total += s.sent
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan []part)
	var group sync.WaitGroup
	for range min(senders, len(packs)) {
		group.Go(func() {
			for pack := range next {
				if err := s.sendPack(ctx, pack, total); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for _, pack := range packs {
		select {
		case next <- pack:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

func (s *sender) sendPack(ctx context.Context, pack []part, total int64) error {
	var pieces []uploads.Piece
	var content []byte
	for _, p := range pack {
		start := int64(len(content))
		content = append(content, make([]byte, p.size)...)
		if err := s.read(p, content[start:]); err != nil {
			return err
		}
		pieces = append(pieces, uploads.Piece{SHA256: p.sum, Size: p.size})
	}
	body, err := uploads.EncodePack(pieces, content)
	if err != nil {
		return err
	}
	if err := s.client.PostBytes(ctx, "/uploads/packs", body); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += int64(len(content))
	for _, p := range pack {
		s.files[p.file.Path] = true
	}
	s.bar.show("sending", s.sent, total)
	return nil
}

// read reads a piece again, and refuses it if it is not what it was.
func (s *sender) read(p part, into []byte) error {
	file, _, err := open(s.root, p.file.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(into, p.at)
	switch {
	case errors.Is(err, io.EOF) || err == nil && uploads.Sum(into) != p.sum:
		return changed(p.file.Path)
	case err != nil:
		return fmt.Errorf("read %q: %w", p.file.Path, err)
	}
	return nil
}

// bar shows progress on a terminal.
type bar struct {
	w     io.Writer // nil: it is no terminal
	shown time.Time
}

func newBar(w io.Writer) *bar {
	if !render.IsTerminal(w) {
		return &bar{}
	}
	return &bar{w: w, shown: time.Now()} // short work shows nothing
}

// every is how often progress is shown.
const every = 200 * time.Millisecond

func (b *bar) show(what string, done, total int64) {
	if b.w == nil || time.Since(b.shown) < every {
		return
	}
	b.shown = time.Now()
	fmt.Fprintf(b.w, "\r\033[Kmind: %s %s of %s", what, render.Size(done), render.Size(total))
}

func (b *bar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\033[K")
	}
}
