package fitness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// Without a setting, the smaller of defaultPercent and defaultBytes must be free, and defaultPercent of the inodes. A
	// hundredth of a large disk is enough for hours of logs; a task that finds its disk full in the middle of a checkpoint loses more
	// than one that starts elsewhere.
	defaultPercent, defaultBytes = 5, 10 << 30
	// An unfit node counts as fit when recovered times the least is free, or spared tenths of the watermark.
	recovered, spared = 2, 12
)

// Watermark is the space that must be free on a disk for a new task. The zero value is the default: the smaller of 5 % and 10 GiB, and 5 % of
// the inodes.
type Watermark struct {
	set     bool
	percent uint64 // of the bytes and of the inodes
	bytes   uint64 // if percent is 0
}

// UnmarshalText parses a percentage such as "5%", a number of bytes such as "10GiB", or "0" for none; empty: the default.
func (w *Watermark) UnmarshalText(text []byte) error {
	value := strings.TrimSpace(string(text))
	if value == "" {
		*w = Watermark{}
		return nil
	}
	malformed := fmt.Errorf("%q is neither a percentage of the disk, such as 5%%, nor a size, such as 10GiB, nor 0", value)
	if number, ok := strings.CutSuffix(value, "%"); ok {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > 90 {
			return errors.Join(malformed, errors.New("a percentage is at most 90"))
		}
		*w = Watermark{set: true, percent: n}
		return nil
	}
	shift := 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40} {
		if number, ok := strings.CutSuffix(value, unit); ok {
			value, shift = strings.TrimSpace(number), by
		}
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n > 1<<62>>shift {
		return malformed
	}
	*w = Watermark{set: true, bytes: n << shift}
	return nil
}

// MarshalText returns the text of a watermark.
func (w Watermark) MarshalText() ([]byte, error) {
	switch {
	case !w.set:
		return nil, nil
	case w.percent > 0:
		return []byte(strconv.FormatUint(w.percent, 10) + "%"), nil
	}
	return []byte(strconv.FormatUint(w.bytes, 10)), nil
}

// of returns what must be free on a disk.
func (w Watermark) of(bytes, files uint64) (keepBytes, keepFiles uint64) {
	switch {
	case !w.set:
		return min(bytes*defaultPercent/100, defaultBytes), files * defaultPercent / 100
	case w.percent > 0:
		return bytes * w.percent / 100, files * w.percent / 100
	case w.bytes > 0:
		return w.bytes, files * defaultPercent / 100
	}
	return 0, 0
}

// room returns what a disk lacks, or "". unfit: more must be free. The text stays the same while the disk stays full: each change is an
// entry of the cluster's log.
func room(dir string, keep Watermark, unfit bool) string {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return says(&os.PathError{Op: "look at", Path: dir, Err: err})
	}
	size := uint64(stat.Bsize)
	return lacks(dir, disk{bytes: stat.Blocks * size, files: stat.Files, freeBytes: stat.Bavail * size, freeFiles: stat.Ffree}, keep, unfit)
}

// disk is a file system and what is free on it. Some do not count files.
type disk struct{ bytes, files, freeBytes, freeFiles uint64 }

func lacks(dir string, d disk, keep Watermark, unfit bool) string {
	bytes, files := min(leastBytes, d.bytes/100), min(leastFiles, d.files/100)
	keepBytes, keepFiles := keep.of(d.bytes, d.files)
	wantBytes, wantFiles := bytes, files
	wantKeptBytes, wantKeptFiles := keepBytes, keepFiles
	if unfit {
		wantBytes, wantFiles = recovered*bytes, recovered*files
		wantKeptBytes, wantKeptFiles = keepBytes/10*spared, keepFiles*spared/10
	}
	switch {
	case d.freeBytes < wantBytes:
		return fmt.Sprintf("the disk of %s is full: less than %d KiB are free", dir, bytes>>10)
	case d.files > 0 && d.freeFiles < wantFiles:
		return fmt.Sprintf("the disk of %s has no inodes left: fewer than %d are free", dir, files)
	case d.freeBytes < wantKeptBytes:
		return fmt.Sprintf("the disk of %s is nearly full: less than %d MiB are free, which min_free_disk keeps for the tasks that run", dir, keepBytes>>20)
	case d.files > 0 && d.freeFiles < wantKeptFiles:
		return fmt.Sprintf("the disk of %s has few inodes left: fewer than %d are free, which min_free_disk keeps for the tasks that run", dir, keepFiles)
	}
	return ""
}
