package reason

// The codes are in logs and snapshots: a new one comes at the end of its block, and none is ever taken away or moved.

// Why a job is where it is.
const (
	WaitsForJobs Code = iota + 1
	NotYetDue
	HeldForRecovery
	PausesBeforeRestart
	CanceledByUser
	PausedByUser
	ResumedByUser
	RetriedByUser
	CanceledBecause
	DependencyGone
	DependencyDidNotSucceed
	DependencyDidNotFail
	Ended
	EndedWithCode
	EndedSaying
	RankFailed
	RequeuedAfterPreemption
	RequeuedAfterDrain
	PreemptedForGood
	DrainedForGood
	TimeLimitReached
	RanTooLong
	_ // no reason has this number
	RestartedAfter
	RestartsInAfter
	RestartedAsRetry
	RestartsInAsRetry
	NoProgress
	NodeSilentAndDead
	NodeRestarted
	NodeForgotten
	NodeAway
	NodeHasNoTask
	TaskVouchedDead
	DrainDeadline
	NodeBeingDrained
	BadFigures
)

// Why a node or a GPU is as it is.
const (
	DrainedByOperator Code = iota + 100
	CalledDead
	NodeUnheard
	GPUVanished
	NodeSilent
	NodeSilentButRenews
)

// Why the jobs of a class wait.
const (
	NoNodeReady Code = iota + 200
	Demand
	NeedsLabels
	NeedsGPUs
	NeedsSuchGPUs
	NeedsMoreNodes
	NeedsCPUs
	NeedsMemory
	NeedsAbleNodes
	NeedsFraction
	NeedsFreeGPUs
	NeedsFreeNodes
	NeedsLinkedGPUs
	NeedsRoomBesideGPUs
	NeedsFreeNode
	MayStillRun
	AvoidsNodes
	WaitsForNodes
	WaitsForSettling
	FewMayTakeOver
	QuotaOfRunning
	QuotaBelowNeed
	QuotaOfGPUs
	QueueBelowNeed
	QueueOfGPUs
)

// Why something that was asked of a job is refused.
const (
	NoJob Code = iota + 300
	KeyOfOtherJob
	KeyOfOtherRequest
	KeyTooLong
	UnknownAction
	NothingToVouch
	NothingToCancel
	CannotPause
	BeingCanceled
	AttemptEnding
	CannotResume
	CannotResumeFinished
	CanNeverRun
	RetrySucceeded
	RetryPaused
	CannotRetry
	QueueOfJobGone
	NoCheckpoint
	CheckpointNeeded
	TooManyJobs
	NoQueueForJob
	PriorityOutOfRange
	UnknownRetryCause
	TooManyDependencies
	NoDependency
	UnknownCondition
	TooManyGPUs
	GPUsAndFraction
	FractionOutOfRange
	UnknownTopology
	TopologyOfManyNodes
	BeyondAnyNode
	NoSuchGPUType
	QuotaOfJobs
	CheckpointExpired
	CheckpointIsModel
)

// Why a placement, or the loss of a node, is refused.
const (
	JobIs Code = iota + 400
	PlanOutdated
	WrongPlaces
	NodeTwice
	MayNotTakeOver
	JobBarred
	NodeIs
	WrongGPUCount
	GPUNotFree
	GPUsNotLinked
	CPUsNotFree
	MemoryNotFree
	LabelMissing
	CannotBeLost
	TooFewVotes
	NothingToLose
	TasksNotLost
)

// Why something that was asked of a node, a queue, a quota, a token, a launcher or a coordinator is refused.
const (
	NoNode Code = iota + 450
	NodeWithoutID
	GPUIndexTooLarge
	GPUIndexTwice
	NodeDeclaredLost
	NodeMustRegister
	UnknownNodeAction
	BadQueueName
	NoQueue
	QueueStays
	QueueInUse
	BadQuotaTenant
	NegativeLimit
	NoQuota
	TokenExists
	TooManyTokens
	TooManyIDs
	BadTokenDigest
	TokenWithoutTenant
	BadPermissionCount
	TokenTextTooLong
	NoToken
	TooManyLaunchers
	BadFrameworkName
	LauncherWithoutCommand
	LauncherTooManyParts
	LauncherTooLarge
	LauncherWithNUL
	CoordinatorWithoutID
	NoCoordinator
	LevelReached
	MembershipChanged
)

// Messages of the audit log.
const (
	Vouched Code = iota + 550
	Forced
	QueueSetTo
	QuotaSetTo
	TokenFor
	Denied
	WithDeadline
)

// Why a checkpoint is as it is.
const (
	NotRetained Code = iota + 600
	ReplacedByNewer
	FilesGone
)

// About queues in a tree, and the policy of the scheduler.
const (
	NoParentQueue Code = iota + 650
	QueueOfItself
	QueueTooDeep
	QueueIsParent
	QueueBelowSetTo
	BadPolicy
	PolicyOutdated
	PolicySetTo
)

// Why a job is preempted, or waits for others that are, and why a preemption is refused.
const (
	PreemptedFor Code = iota + 680
	PreemptsOthers
	ClaimThere
	TooManyClaims
	NoVictims
	VictimNotRunning
	VictimNotPreemptible
	VictimNotBelow
	VictimProtected
	VictimNotNeeded
)

// Of job arrays.
const (
	MaxParallelReached Code = iota + 700
	BadArray
	NoArrayID
	ElementNotStarted
	ElementsStopping
	NothingFailed
	NotForAnArray
	ElementsFailed
	ElementsCanceled
)

// Why a promised start is another one than before, why one is refused, and what promises mean to other jobs.
const (
	PromiseEarlier Code = iota + 710
	PromiseNodeLost
	PromiseOutranked
	PromiseOverrun
	PromiseOverlaps
	TooManyPromises
	WouldDelay
	StartReserved
)

// About time: limits, maintenance, reservations, and running jobs whose tenant has no GPU hours left.
const (
	TimeLimitNear Code = iota + 720
	BadWindow
	WindowThere
	TooManyWindows
	NoWindow
	NoNodeMatches
	WindowsMeet
	TooFewToReserve
	NodeKept
	NodeReserved
	UnderMaintenance
	NodesKept
	StopsForHours
	StoppedForHours
	EndedForHours
)

// About domains between nodes, and the nodes that a job excludes.
const (
	NeedsDomain Code = iota + 740
	NeedsSegments
	NeedsLabelledNodes
	DomainSplit
	NodeExcluded
	WithoutExcluded
	BadDomains
)

// About quotas by type of GPU and by GPU hours, and about GPUs that queues are guaranteed.
const (
	QuotaOfHours Code = iota + 750
	QuotaOfType
	QuotaTypeBelowNeed
	QueueOfType
	ReclaimedFor
	NotGuaranteed
	VictimGuaranteed
	GuaranteeTooLarge
	LimitsSetTo
	BadTypeLimits
)

// Why a job waits although places are held for it.
const (
	PlacesHeld Code = iota + 760
)

// About schedules.
const (
	BadSchedule Code = iota + 770
	NoSchedule
	TooManySchedules
	TooManySchedulesOfTenant
	ScheduleChanged
	ScheduleNotDue
	ScheduleOverlaps
	ScheduleTooLate
	ReplacedByNextRun
)

// About Cores, their executions and decisions.
const (
	NoCore Code = iota + 790
	CoreExists
	BadCore
	TooManyCores
	CoreBusy
	CoreCannot
	CoreNotRunning
	CoreChanged
	NoExecution
	TooManyExecutions
	ExecutionChanged
	ExecutionOver
	ExecutionNotFailed
	NotWaitingForSignal
	NoDecision
	DecisionOver
	NotAssignee
	StaleSubject
	BadAnswer
	AlreadyVoted
	CalledTooDeep
	BadExecution
	WaitsAtGate
	GateAnswered
	GateExpired
	CanceledAtGate
	ResumeAtGate
	GateUndecided
	GateKept
	GateTakenBack
)

// About sessions of users.
const (
	NoSession Code = iota + 850
	SessionExists
	BadSession
	TooManySessions
	SessionFrom
	SessionOf
	SessionReplaced
	SessionOfToken
)

// About jobs that users steer while they wait or stop.
const (
	HeldByUser Code = iota + 870
	HeldBecause
	CannotHold
	CannotRelease
	CannotUpdate
	UpdateLive
	UpdateElement
	JobChanged
	GoesOnWhenStopped
	UpdateBegunArray
	LabelStays
	LimitPassed
	PlacesPromised
	ResumeHeld
)

// About flows, the programs that people draw.
const (
	NoFlow Code = iota + 890
	BadFlow
	TooManyFlows
	FlowsTooLarge
	FlowChanged
	FlowKeyUsed
	FlowNeedsRight
	NoFlowVersion
	NoFlowRight
	FlowRightThere
	FlowOwnerHasAll
	TooManyFlowRights
)

// About what every tenant is bounded by.
const (
	QuotaOfSubmissions Code = iota + 910
	QuotaOfSpecs
	SpecDropped
)

// About slices of GPUs.
const (
	SliceAlone Code = iota + 920
)
