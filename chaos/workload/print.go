package workload

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Sum is the checksum of a long log: the number of lines, and the hash over all of them.
type Sum struct {
	Lines int
	Hash  string
}

// Summing computes a Sum.
type Summing struct {
	lines int
	hash  hash.Hash
}

// NewSumming returns a Summing without lines.
func NewSumming() *Summing { return &Summing{hash: sha256.New()} }

// Add adds the text of one line, without its line end.
func (s *Summing) Add(line []byte) {
	s.lines++
	s.hash.Write(line)
	s.hash.Write([]byte{'\n'})
}

// Sum returns the checksum of the added lines.
func (s *Summing) Sum() Sum { return Sum{s.lines, hex.EncodeToString(s.hash.Sum(nil))} }

// batches is the pause between the batches in which lines are printed.
const batches = 20 * time.Millisecond

// print prints s.Print lines, evenly over s.Length, and writes their sum.
func (s Spec) print(job string, stdout io.Writer) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	out, sum, start := bufio.NewWriterSize(stdout, 64<<10), NewSumming(), time.Now()
	tick := time.NewTicker(batches)
	defer tick.Stop()
	var line []byte
	for n := 0; n < s.Print; {
		due := s.Print
		if passed := time.Since(start); passed < s.Length {
			due = int(float64(s.Print) * float64(passed) / float64(s.Length))
		}
		for ; n < due; n++ {
			// Each line is unique, and compresses badly.
			line = fmt.Appendf(line[:0], "printed %s %07d %016x", job, n, uint64(n+1)*0x9e3779b97f4a7c15)
			sum.Add(line)
			if _, err := out.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if n < s.Print {
			<-tick.C
		}
	}
	total := sum.Sum()
	aside := printedFile(s.Dir, job) + ".part"
	if err := os.WriteFile(aside, fmt.Appendln(nil, total.Lines, total.Hash), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, printedFile(s.Dir, job))
}

// Printed reads the sum that a job with a long log has written.
func Printed(dir, job string) (s Sum, err error) {
	text, err := os.ReadFile(printedFile(dir, job))
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscan(string(text), &s.Lines, &s.Hash)
	return s, err
}

func printedFile(dir, job string) string { return filepath.Join(dir, "printed-"+job) }
