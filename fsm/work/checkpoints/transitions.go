package checkpoints

import (
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// Transition is a legal change of where a checkpoint is.
type Transition struct {
	From, To v1.CheckpointState_Value
	Why      string
}

// transitions is the whole table: what is not in it does not happen. UNSPECIFIED is where a checkpoint comes from.
var transitions = []Transition{
	{v1.CheckpointState_UNSPECIFIED, v1.CheckpointState_LOCAL, "registered"},
	{v1.CheckpointState_LOCAL, v1.CheckpointState_UPLOADING, "the upload has begun"},
	{v1.CheckpointState_LOCAL, v1.CheckpointState_DURABLE, "the archive has all of it"},
	{v1.CheckpointState_UPLOADING, v1.CheckpointState_DURABLE, "the archive has all of it"},
	{v1.CheckpointState_LOCAL, v1.CheckpointState_EXPIRED, "retention, or its files are gone"},
	{v1.CheckpointState_UPLOADING, v1.CheckpointState_EXPIRED, "retention, or its files are gone"},
	{v1.CheckpointState_DURABLE, v1.CheckpointState_EXPIRED, "retention, or a newer one in its place"},
}

// Transitions returns the legal transitions.
func Transitions() []Transition { return append([]Transition(nil), transitions...) }

// CanMove says whether a checkpoint may change from one state to the other.
func CanMove(from, to v1.CheckpointState_Value) bool {
	for _, t := range transitions {
		if t.From == from && t.To == to {
			return true
		}
	}
	return false
}

// Mermaid draws the transitions as a Mermaid state diagram.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, t := range transitions {
		from := t.From.String()
		if t.From == v1.CheckpointState_UNSPECIFIED {
			from = "[*]"
		}
		b.WriteString("    " + from + " --> " + t.To.String() + ": " + t.Why + "\n")
	}
	b.WriteString("    EXPIRED --> [*]\n")
	return b.String()
}
