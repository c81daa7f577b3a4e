package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/taskfile"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// journalFile, in a task directory, keeps the findings that could not be made again: a checkpoint is complete when it
// is found, but may be removed or partly overwritten before the next agent looks. Starts, ends and progress are not in
// it: they can be read from the other files at any time.
const journalFile = "reports"

// maxJournal limits how much of the journal is read; it is more than any watcher writes.
const maxJournal = 64 << 20

// errUnsayable is returned for a report that cannot be encoded.
var errUnsayable = errors.New("encode report")

// journal reads and writes journalFile. Lines are only appended, by the goroutine that watches the task and, for
// acknowledgements, by the session.
type journal struct {
	dir  string
	next uint64
	// eventsDone is the offset in the events file up to which checkpoints and results were handled.
	eventsDone int64
	phase      v1.JobPhase_Value
	known      map[string]knownDir // the checkpoints in the journal, by path
	unacked    []journalEntry
}

type journalEntry struct {
	n    uint64
	at   time.Time
	body *v1.Report
}

type journalLine struct {
	// N is the number of a report; Acked is the number of a report that the coordinators have.
	N     uint64 `json:"n,omitempty"`
	Acked uint64 `json:"acked,omitempty"`
	At    int64  `json:"at,omitempty"`
	// Events is the offset behind the event of this report.
	Events int64  `json:"events,omitempty"`
	Report []byte `json:"report,omitempty"`
}

// openJournal reads the journal. An incomplete line ends it.
func openJournal(dir string) *journal {
	j := &journal{dir: dir, next: 1, known: make(map[string]knownDir)}
	data, err := taskfile.Read(dir, journalFile, maxJournal)
	if err != nil {
		return j
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	for text := range bytes.Lines(data[:whole]) {
		var line journalLine
		if json.Unmarshal(text, &line) != nil {
			continue
		}
		j.take(line)
	}
	if whole < len(data) {
		// The next line must not become a part of it.
		_ = taskfile.Replace(dir, journalFile, data[:whole])
	}
	return j
}

func (j *journal) take(line journalLine) {
	j.eventsDone = max(j.eventsDone, line.Events)
	if line.Acked != 0 {
		for i, e := range j.unacked {
			if e.n == line.Acked {
				j.unacked = append(j.unacked[:i:i], j.unacked[i+1:]...)
				break
			}
		}
	}
	body := &v1.Report{}
	if line.N == 0 || proto.Unmarshal(line.Report, body) != nil || !keptKind(body) {
		return // other entries, such as the task's end, are ignored: the task may have written them
	}
	j.next = max(j.next, line.N+1)
	j.note(body)
	j.unacked = append(j.unacked, journalEntry{n: line.N, at: time.Unix(0, line.At), body: body})
}

// keptKind says whether reports of this kind are in journals.
func keptKind(body *v1.Report) bool {
	return body.GetCheckpoint() != nil || body.GetEvaluation() != nil || body.GetPhase() != nil || body.GetGate() != nil
}

func (j *journal) note(body *v1.Report) {
	if c := body.GetCheckpoint(); c != nil {
		j.known[c.GetPath()] = knownOf(c)
	}
	if p := body.GetPhase(); p != nil {
		j.phase = p.GetPhase()
	}
}

// add appends a report and returns its number. Nothing is synced: after a power cut the coordinators have ended the
// task before the node comes back, and accept no more reports about it.
func (j *journal) add(body *v1.Report, at time.Time, events int64) (uint64, error) {
	report, err := proto.Marshal(body)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnsayable, err)
	}
	n := j.next
	j.next++
	j.note(body)
	return n, j.write(journalLine{N: n, At: at.UnixNano(), Events: events, Report: report})
}

// passed records that an event needs no second look.
func (j *journal) passed(events int64) error { return j.write(journalLine{Events: events}) }

// ack records that the coordinators have a report. If the record is lost, they get the report again, which changes nothing.
func (j *journal) ack(n uint64) { _ = j.write(journalLine{Acked: n}) }

func (j *journal) write(line journalLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode journal: %w", err)
	}
	text = append(text, '\n')
	if err = taskfile.Append(j.dir, journalFile, text); errors.Is(err, fs.ErrNotExist) {
		err = taskfile.Replace(j.dir, journalFile, text)
	}
	return err
}
