package work

// The numbers of the commands in log entries: append-only, never reused, never changed.

// CommandNumber implements kernel.Command.
func (SubmitJobs) CommandNumber() uint16 { return 1 }

// CommandNumber implements kernel.Command.
func (ControlJob) CommandNumber() uint16 { return 2 }

// CommandNumber implements kernel.Command.
func (PlaceJobs) CommandNumber() uint16 { return 3 }

// CommandNumber implements kernel.Command.
func (ReportTasks) CommandNumber() uint16 { return 4 }

// CommandNumber implements kernel.Command.
func (RegisterNode) CommandNumber() uint16 { return 5 }

// CommandNumber implements kernel.Command.
func (SetNode) CommandNumber() uint16 { return 6 }

// CommandNumber implements kernel.Command.
func (PutQueue) CommandNumber() uint16 { return 7 }

// CommandNumber implements kernel.Command.
func (DeleteQueue) CommandNumber() uint16 { return 8 }

// CommandNumber implements kernel.Command.
func (Tick) CommandNumber() uint16 { return 11 }

// CommandNumber implements kernel.Command.
func (Configure) CommandNumber() uint16 { return 12 }

// CommandNumber implements kernel.Command.
func (LoseNode) CommandNumber() uint16 { return 13 }

// CommandNumber implements kernel.Command.
func (AckRoster) CommandNumber() uint16 { return 14 }

// CommandNumber implements kernel.Command.
func (PutQuota) CommandNumber() uint16 { return 21 }

// CommandNumber implements kernel.Command.
func (DeleteQuota) CommandNumber() uint16 { return 22 }

// CommandNumber implements kernel.Command.
func (PutPolicy) CommandNumber() uint16 { return 30 }

// CommandNumber implements kernel.Command.
func (Recover) CommandNumber() uint16 { return 24 }

// CommandNumber implements kernel.Command.
func (NoteSnapshot) CommandNumber() uint16 { return 25 }
