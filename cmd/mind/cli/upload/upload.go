// Package upload sends a working directory to a gateway, for a job that is to run in it.
//
// Contract: Send reads the files of a directory, sends the pieces that the gateway does not have, and returns the id of the
// upload.
//
// Guarantees: left out are .git, what git ignores, and what .mindignore files say. A file that changes while it is read, a link
// that leads out of the directory, and whatever is neither a file nor a link are refused by name. After an interruption the next
// Send sends only the rest.
//
// Not guaranteed: that the files are of one moment. Each file is whole; another may be newer.
package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/archive/uploads"
	"github.com/mindcoordinator/mind/cmd/mind/cli/exit"
	"github.com/mindcoordinator/mind/cmd/mind/cli/render"
	"github.com/mindcoordinator/mind/cmd/mind/cli/rest"
)

// Sent is a sent directory.
type Sent struct {
	ID    string
	Files int
	Bytes int64
	// SentFiles and SentBytes were not in the archive before.
	SentFiles int
	SentBytes int64
}

// String says what was sent.
func (s Sent) String() string {
	text := fmt.Sprintf("upload %s: %s, %s; ", s.ID, count(s.Files), render.Size(s.Bytes))
	if s.SentFiles == 0 {
		return text + "nothing to send: the cluster has them"
	}
	return text + fmt.Sprintf("sent %s, %s", count(s.SentFiles), render.Size(s.SentBytes))
}

func count(files int) string {
	if files == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", files)
}

// offered is the answer of the gateway to an offer.
type offered struct {
	Upload   string   `json:"upload"`
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing"`
}

// limits are the limits of the gateway.
type limits struct {
	MaxBytes int64 `json:"max_bytes"`
}

// rounds is how often all files are offered: the first time to learn which pieces the gateway lacks, the second time to complete
// the upload. Another one is needed only if pieces were removed meanwhile.
const rounds = 4

// Send sends the files of a directory. It shows its progress on progress, if that is a terminal.
func Send(ctx context.Context, c *rest.Client, dir string, progress io.Writer) (Sent, error) {
	var allowed limits
	if _, err := c.Get(ctx, "/uploads", nil, &allowed); err != nil {
		return Sent{}, err
	}
	dir, err := filepath.EvalSymlinks(dir) // git, and a walk, stop at a link
	if err != nil {
		return Sent{}, exit.Misuse(fmt.Errorf("--upload: %w", err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Sent{}, exit.Misuse(fmt.Errorf("--upload: %w", err))
	}
	defer root.Close()
	bar := newBar(progress)
	defer bar.clear()
	tree, err := scan(ctx, root, dir, allowed.MaxBytes, bar)
	if err != nil {
		return Sent{}, err
	}
	s := sender{client: c, root: root, tree: tree, bar: bar, files: map[string]bool{}}
	for range rounds {
		var answer offered
		if err := c.PostLarge(ctx, "/uploads", tree, &answer); err != nil {
			return Sent{}, s.interrupted(ctx, err)
		}
		if answer.Complete {
			return Sent{ID: answer.Upload, Files: len(tree.Files), Bytes: tree.Bytes(), SentFiles: len(s.files), SentBytes: s.sent}, nil
		}
		if err := s.send(ctx, answer.Missing); err != nil {
			return Sent{}, s.interrupted(ctx, err)
		}
	}
	return Sent{}, errors.New("the gateway keeps saying that files are missing, although they were sent: are all gateways configured with the same checkpoint_archive?")
}

// interrupted says how to go on after Ctrl-C.
func (s *sender) interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exit.Interrupted("stopped while the files were sent; nothing was submitted. The same command sends only the rest")
	}
	return err
}

// scan lists the files of a directory with the digests of their contents.
func scan(ctx context.Context, root *os.Root, dir string, most int64, bar *bar) (*uploads.Tree, error) {
	paths, err := list(ctx, dir)
	if err != nil {
		return nil, err
	}
	tree, total := &uploads.Tree{}, int64(0)
	for _, path := range paths {
		f, there, err := look(root, path)
		if err != nil {
			return nil, err
		}
		if there {
			total += f.Size
			tree.Files = append(tree.Files, f)
		}
	}
	if most > 0 && total > most {
		return nil, fmt.Errorf("%s has %s in %s, and this cluster takes %s: leave large files out with a .mindignore (syntax of .gitignore), or keep them on a file system that the nodes share",
			dir, render.Size(total), count(len(tree.Files)), render.Size(most))
	}
	read := int64(0)
	for i := range tree.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &tree.Files[i]
		if f.Link == "" {
			if err := digest(root, f); err != nil {
				return nil, err
			}
		}
		read += f.Size
		bar.show("reading", read, total)
	}
	if len(tree.Files) == 0 {
		return nil, fmt.Errorf("%s has no file to send: are all of them ignored?", dir)
	}
	tree.ID() // sorts it
	// The gateway checks the same.
	if err := tree.Check(1 << 62); err != nil {
		return nil, err
	}
	return tree, nil
}
