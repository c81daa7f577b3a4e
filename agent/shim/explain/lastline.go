package explain

import (
	"bytes"
	"slices"
)

// Texts that launchers and Python write around the error of a program.
const (
	tracebackLine = "Traceback (most recent call last):"
	childFailed   = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
	processFailed = "subprocess.CalledProcessError: Command "
	rootCause     = "Root Cause (first observed failure):"
)

// LastLine returns the line at the end of stderr that says why a program failed. That is the last one, except under a
// launcher, which writes an error of its own at the end: torchrun names the rank that failed first, and LastLine
// returns the last line of that rank's traceback.
func LastLine(tail []byte) string {
	// Package strings would make the shim initialise packages that it does not need.
	var lines []string
	for line := range bytes.SplitSeq(bytes.TrimSpace(bytes.ToValidUTF8(tail, []byte("\uFFFD"))), []byte{'\n'}) {
		lines = append(lines, string(bytes.TrimRight(line, " \r\t")))
	}
	for i, line := range slices.Backward(lines) {
		switch {
		case begins(line, childFailed):
			return orLast(rankError(lines[:tracebackOf(lines, i)], lines[i+1:]), lines)
		case begins(line, processFailed):
			return orLast(lastWritten(lines[:tracebackOf(lines, i)]), lines)
		}
	}
	return lines[len(lines)-1]
}

func orLast(line string, lines []string) string {
	if line != "" {
		return line
	}
	return lines[len(lines)-1]
}

// tracebackOf returns the index of the first line of the traceback that ends with the line at end.
func tracebackOf(lines []string, end int) int {
	for i, line := range slices.Backward(lines[:end]) {
		if line == tracebackLine {
			return i
		}
	}
	return end
}

// rankError returns the last line of the traceback of the rank that torchrun's footer names; or, for a rank that was
// killed, the line of the footer about it.
func rankError(lines, footer []string) string {
	rank, killed := firstFailed(footer)
	if killed != "" {
		return killed + ofRank(rank)
	}
	var named, first string
	chained := false
	for i, line := range lines {
		of, text := prefixed(line)
		if text != tracebackLine {
			continue
		}
		end := endOfTraceback(lines[i+1:], of)
		switch {
		case end == "":
		case of == "" && (first == "" || chained):
			first = end
			chained = isChained(lines[i+1:])
		case of != "" && of == rank:
			named = end // the last one: the errors before it are its causes
		}
	}
	switch {
	case named != "":
		return named + ofRank(rank)
	case first != "":
		return first
	}
	return lastWritten(lines)
}

// firstFailed returns the rank that failed first according to the footer, and the signal that killed it, if one did.
func firstFailed(footer []string) (rank, killed string) {
	at := slices.Index(footer, rootCause)
	for _, line := range footer[at+1:] {
		name, value, _ := bytes.Cut([]byte(line), []byte{':'})
		value = bytes.TrimSpace(value)
		switch string(bytes.TrimSpace(name)) {
		case "rank":
			number, _, _ := bytes.Cut(value, []byte{' '})
			rank = string(number)
		case "traceback":
			if begins(string(value), "Signal ") {
				killed = string(value)
			}
			return rank, killed
		}
	}
	return rank, killed
}

func ofRank(rank string) string {
	if rank == "" {
		return ""
	}
	return " (rank " + rank + ")"
}

// prefixed splits off the prefix that torch puts before the lines of a rank, such as "[rank0]: ".
func prefixed(line string) (rank, text string) {
	after, ok := bytes.CutPrefix([]byte(line), []byte("[rank"))
	number, rest, found := bytes.Cut(after, []byte("]:"))
	if !ok || !found {
		return "", line
	}
	return string(number), string(bytes.TrimPrefix(rest, []byte{' '}))
}

// endOfTraceback returns the line with the error: the first line of the rank that is not indented.
func endOfTraceback(lines []string, of string) string {
	for _, line := range lines {
		rank, text := prefixed(line)
		if rank == of && text != "" && text[0] != ' ' {
			return text
		}
	}
	return ""
}

// isChained reports whether another traceback follows because the error was replaced by another one.
func isChained(lines []string) bool {
	for _, line := range lines {
		switch {
		case begins(line, "The above exception was the direct cause"), begins(line, "During handling of the above exception"):
			return true
		case line == tracebackLine:
			return false
		}
	}
	return false
}

// lastWritten returns the last line that is not torchrun's own log.
func lastWritten(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line != "" && !bytes.Contains([]byte(line), []byte(" torch/distributed/elastic/")) {
			return line
		}
	}
	return ""
}

func begins(line, prefix string) bool {
	return len(line) >= len(prefix) && line[:len(prefix)] == prefix
}
