package work

const (
	// EvaluationLabel and EvaluationValue mark the jobs that are evaluations. Users cannot set them.
	EvaluationLabel = "type"
	EvaluationValue = "evaluation"
)

// Evaluation says whether the job is one.
func (j *Job) Evaluation() bool { return j.Labels[EvaluationLabel] == EvaluationValue }
