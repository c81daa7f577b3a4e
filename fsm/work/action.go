package work

// Action says what ControlJob does.
type Action uint8

// The actions on a job.
const (
	ActionCancel Action = iota + 1
	ActionPause
	ActionResume
	ActionRetry
	ActionHold
	ActionRelease
)
