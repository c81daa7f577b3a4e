package fsm

func (SubmitJobs) commandType() uint16        { return 1 }
func (SubmitJobs) apply(*tx) any              { return nil }
func (ControlJob) commandType() uint16        { return 2 }
func (ControlJob) apply(*tx) any              { return nil }
func (PlaceJobs) commandType() uint16         { return 3 }
func (PlaceJobs) apply(*tx) any               { return nil }
func (ReportTasks) commandType() uint16       { return 4 }
func (ReportTasks) apply(*tx) any             { return nil }
func (RegisterNode) commandType() uint16      { return 5 }
func (RegisterNode) apply(*tx) any            { return nil }
func (SetNode) commandType() uint16           { return 6 }
func (SetNode) apply(*tx) any                 { return nil }
func (PutQueue) commandType() uint16          { return 7 }
func (PutQueue) apply(*tx) any                { return nil }
func (DeleteQueue) commandType() uint16       { return 8 }
func (DeleteQueue) apply(*tx) any             { return nil }
func (PutCoordinator) commandType() uint16    { return 9 }
func (PutCoordinator) apply(*tx) any          { return nil }
func (DeleteCoordinator) commandType() uint16 { return 10 }
func (DeleteCoordinator) apply(*tx) any       { return nil }
func (Tick) commandType() uint16              { return 11 }
func (Tick) apply(*tx) any                    { return nil }
func (Configure) commandType() uint16         { return 12 }
func (Configure) apply(*tx) any               { return nil }
