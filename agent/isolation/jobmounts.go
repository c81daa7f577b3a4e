package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/agent/safedir"
	"github.com/mindcoordinator/mind/agent/shim/confine"
)

// MountsLabel is the label of a node that lets jobs mount files; its value is MountsJobs. Coordinators place jobs with mounts on such nodes
// alone: earlier agents would leave the mounts out.
const MountsLabel, MountsJobs = "mind.io/mounts", "jobs"

// MountsForJobs reports whether jobs may mount files.
func (i *Isolation) MountsForJobs() bool { return i.room != nil && len(i.room.roots) > 0 }

// root is a directory below which the sources of mounts of jobs may be.
type root struct {
	// path is without links, named as the operator has written it.
	path, named string
	readOnly    bool
}

// parseRoots parses mount_roots: paths, each perhaps with :ro or :rw.
func parseRoots(texts []string) (roots []root, err error) {
	for _, text := range texts {
		path, mode, _ := strings.Cut(text, ":")
		if !filepath.IsAbs(path) || !slices.Contains([]string{"", "ro", "rw"}, mode) {
			return nil, fmt.Errorf("mount_roots has %q: each is the absolute path of a directory, with :ro if jobs may not write there, such as /datasets:ro", text)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, fmt.Errorf("mount_roots: %w", err)
		}
		roots = append(roots, root{real, path, mode == "ro"})
	}
	return roots, nil
}

// JobMounts returns the mounts that a job asks for, SOURCE:TARGET, SOURCE:TARGET:ro or SOURCE:TARGET:rw. The error says why this node
// does not let the job have them.
func (i *Isolation) JobMounts(texts []string) (mounts []confine.Mount, err error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if i == nil || i.room == nil {
		level := None
		if i != nil {
			level = i.Level
		}
		return nil, fmt.Errorf("mounts of jobs need nodes with isolation %s, and this one has %s: submit with --node-selector %s=%s", Full, level, Label, Full)
	}
	for _, text := range texts {
		m, err := i.room.ofJob(text)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", text, err)
		}
		// A missing target would be made there, with the rights of the agent.
		inOther := func(other confine.Mount) bool { return safedir.Within(m.To, other.To) }
		if slices.ContainsFunc(mounts, inOther) || slices.ContainsFunc(i.room.mounts, inOther) {
			return nil, fmt.Errorf("mount %s: its target lies in that of another mount", text)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// ofJob checks a mount of a job. Whether its user may read the source, the shim finds out as that user.
func (r *room) ofJob(text string) (confine.Mount, error) {
	if strings.Count(text, ":") == 1 {
		text += ":ro"
	}
	m, err := parseMount(text)
	var unseen *fs.PathError
	missing := errors.As(err, &unseen)
	if missing {
		m.From, _, _ = strings.Cut(text, ":") // whether it is there is said of the roots alone
	} else if err != nil {
		return m, err
	}
	within := func(in root) bool {
		return safedir.Within(m.From, in.path) || missing && safedir.Within(m.From, in.named)
	}
	at := slices.IndexFunc(r.roots, within)
	switch {
	case at >= 0 && missing:
		return m, errors.New("its source is not there")
	case at < 0 && len(r.roots) == 0:
		return m, errors.New("the node lets jobs mount nothing: its operator sets mount_roots")
	case at < 0:
		return m, errors.New("the node lets jobs mount only files and directories below " + strings.Join(r.rootNames(), ", ") + " (mount_roots)")
	case m.Write && !slices.ContainsFunc(r.roots, func(in root) bool { return within(in) && !in.readOnly }):
		return m, fmt.Errorf("%s is read-only for jobs (mount_roots): mount it with :ro", r.roots[at].path)
	}
	if slices.ContainsFunc(r.fresh(0), func(f confine.Mount) bool { return m.To == f.To }) {
		return m, fmt.Errorf("%s is in memory in each task, and is not replaced", m.To)
	}
	return m, r.allow(m)
}

func (r *room) rootNames() (names []string) {
	for _, in := range r.roots {
		names = append(names, in.path)
	}
	return names
}
