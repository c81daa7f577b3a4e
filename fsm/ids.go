package fsm

import "strings"

// JobID identifies a job: the index of the entry that created it, and its place among the ids minted by that entry.
// So ids are unique, ordered by age, and cost nothing. Zero is no job.
type JobID uint64

// CheckpointID identifies a checkpoint, minted like a JobID.
type CheckpointID uint64

// TokenID identifies an API token, minted like a JobID. It is no secret.
type TokenID uint64

const (
	jobPrefix        = "job_"
	checkpointPrefix = "ckpt_"
	tokenPrefix      = "tok_"
	// An evaluation is a job, and goes by two names.
	evaluationPrefix = "eval_"

	// idPositionBits is the share of an id that counts within one entry.
	idPositionBits = 16
	// MaxIDsPerEntry bounds the ids that one entry can mint; what would need more is refused.
	MaxIDsPerEntry = 1 << idPositionBits
)

// crockford is Crockford's base32 in lower case: no i, l, o, u.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// FirstJobAfter is the lowest id that a job can have which was created after the entry of an index.
func FirstJobAfter(index uint64) JobID { return JobID((index + 1) << idPositionBits) }

// String is the id as users see it, such as "job_1k0g00".
func (id JobID) String() string { return formatID(jobPrefix, uint64(id)) }

// String is the id as users see it, such as "ckpt_1k0g00".
func (id CheckpointID) String() string { return formatID(checkpointPrefix, uint64(id)) }

// String is the id as users see it, such as "tok_1k0g00".
func (id TokenID) String() string { return formatID(tokenPrefix, uint64(id)) }

// EvaluationID is the name of a job as an evaluation, such as "eval_1k0g00".
func (id JobID) EvaluationID() string { return formatID(evaluationPrefix, uint64(id)) }

// ParseEvaluationID reads what JobID.EvaluationID wrote, and nothing else.
func ParseEvaluationID(s string) (JobID, bool) {
	n, ok := parseID(evaluationPrefix, s)
	return JobID(n), ok
}

// ParseTokenID reads what TokenID.String wrote, and nothing else.
func ParseTokenID(s string) (TokenID, bool) {
	n, ok := parseID(tokenPrefix, s)
	return TokenID(n), ok
}

// ParseJobID reads what JobID.String wrote, and nothing else: one job has one spelling.
func ParseJobID(s string) (JobID, bool) {
	n, ok := parseID(jobPrefix, s)
	return JobID(n), ok
}

// ParseCheckpointID reads what CheckpointID.String wrote, and nothing else.
func ParseCheckpointID(s string) (CheckpointID, bool) {
	n, ok := parseID(checkpointPrefix, s)
	return CheckpointID(n), ok
}

func formatID(prefix string, n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = crockford[n&31]
		n >>= 5
		if n == 0 {
			break
		}
	}
	return prefix + string(b[i:])
}

func parseID(prefix, s string) (uint64, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || digits == "" || len(digits) > 13 || digits[0] == '0' {
		return 0, false
	}
	var n uint64
	for i := range len(digits) {
		d := strings.IndexByte(crockford, digits[i])
		if d < 0 || n > (1<<64-1)>>5 {
			return 0, false
		}
		n = n<<5 | uint64(d)
	}
	return n, true
}
