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

// Sum is the truth about a long log: how many lines there are, and the hash over all of them.
type Sum struct {
	Lines int
	Hash  string
}

// Summing adds up lines.
type Summing struct {
	lines int
	hash  hash.Hash
}

// NewSumming returns the sum of no lines.
func NewSumming() *Summing { return &Summing{hash: sha256.New()} }

// Add takes the text of one line, without its end.
func (s *Summing) Add(line []byte) {
	s.lines++
	s.hash.Write(line)
	s.hash.Write([]byte{'\n'})
}

// Sum of what was added.
func (s *Summing) Sum() Sum { return Sum{s.lines, hex.EncodeToString(s.hash.Sum(nil))} }

// batches are how often lines are printed.
const batches = 20 * time.Millisecond

// print prints so many lines, evenly over some time, and leaves their sum.
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
			// Something that compresses badly and is never twice the same.
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

// Printed reads the sum that a job left which printed a long log.
func Printed(dir, job string) (s Sum, err error) {
	text, err := os.ReadFile(printedFile(dir, job))
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscan(string(text), &s.Lines, &s.Hash)
	return s, err
}

func printedFile(dir, job string) string { return filepath.Join(dir, "printed-"+job) }
