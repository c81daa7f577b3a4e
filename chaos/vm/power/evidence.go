package power

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mindcoordinator/mind/chaos/vm/guest"
	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
	"github.com/mindcoordinator/mind/chaos/workload"
)

// evidence reads the evidence that the processes of the steady jobs have written in this start.
func (t *test) evidence(ctx context.Context, c *cluster) error {
	r, err := c.machine.Run(ctx, guest.Command{Argv: []string{"tar", "-c", "-C", evidenceDir, "."}})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(t.Dir, "evidence-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(bytes.NewReader(r.Stdout), dir); err != nil {
		return fmt.Errorf("reading the evidence: %w", err)
	}
	found, err := workload.Violations(dir)
	if err != nil {
		return err
	}
	for _, j := range t.ledger.Known(ledger.Steady) {
		lives, err := workload.Lives(dir, j.ID)
		if err != nil {
			return err
		}
		for _, l := range lives {
			if who := l.String(); !t.told[who] {
				t.told[who] = true
				t.result.Count("lives", 1)
			}
		}
		found = append(found, workload.Overlaps(lives)...)
	}
	for _, text := range found {
		if !t.told[text] {
			t.told[text] = true
			t.result.Break(result.DoubleLive, "%s", text)
		}
	}
	return nil
}

// unpack writes the regular files of an archive below dir.
func unpack(r io.Reader, dir string) error {
	in, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			if err := in.MkdirAll(name, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			text, err := io.ReadAll(archive)
			if err != nil {
				return err
			}
			if err := in.WriteFile(name, text, 0o644); err != nil {
				return err
			}
		}
	}
}
