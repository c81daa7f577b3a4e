package words

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mindcoordinator/mind/fsm/reason"
)

// Meaning describes a code for people who look it up.
type Meaning struct {
	Code   string `json:"code"`
	Number int    `json:"number"`
	// About says what codes of this kind explain.
	About string `json:"about"`
	// Sentence has {0} for the first parameter. It is an example if the words depend on the parameters.
	Sentence string `json:"sentence"`
	Example  bool   `json:"example"`
	// Parameters say what each parameter is.
	Parameters []string `json:"parameters"`
	// Remedy says what to do, if somebody can do something and the sentence does not say so itself; else it is empty.
	Remedy string `json:"remedy"`
}

// MeaningOf describes a code.
func MeaningOf(c reason.Code) Meaning {
	kinds, _ := c.Kinds()
	m := Meaning{Code: c.String(), Number: int(c), About: about(c), Remedy: remedies[c], Parameters: []string{}}
	for _, k := range kinds {
		m.Parameters = append(m.Parameters, kindNames[k])
	}
	sentence, plain := sentences[c]
	if !plain {
		m.Sentence, m.Example = Of(c.Samples()[0]), true
		return m
	}
	m.Sentence = places.ReplaceAllStringFunc(sentence, func(place string) string {
		number, noun, _ := strings.Cut(strings.Trim(place, "{}"), " ")
		number, quoted := strings.CutSuffix(number, "q")
		switch _, many, verb := strings.Cut(noun, "|"); {
		case verb:
			return many
		case noun != "":
			return "{" + number + "} " + noun + "s"
		case quoted:
			return `"{` + number + `}"`
		}
		return "{" + number + "}"
	})
	return m
}

var places = regexp.MustCompile(`\{[^}]*\}`)

// Find returns the codes that a text is the name or the number of, or else those whose sentence contains the text.
func Find(text string) []Meaning {
	var said []Meaning
	for _, c := range reason.Codes() {
		m := MeaningOf(c)
		if strings.EqualFold(m.Code, text) || strconv.Itoa(m.Number) == text {
			return []Meaning{m}
		}
		if len(text) > 2 && strings.Contains(strings.ToLower(m.Sentence), strings.ToLower(text)) {
			said = append(said, m)
		}
	}
	return said
}

// String is the meaning in lines.
func (m Meaning) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d): %s\n", m.Code, m.Number, m.About)
	label := "it reads"
	if m.Example {
		label = "for example"
	}
	fmt.Fprintf(&b, "  %s: %s\n", label, m.Sentence)
	for i, what := range m.Parameters {
		fmt.Fprintf(&b, "  {%d} is %s\n", i, what)
	}
	if m.Remedy != "" {
		fmt.Fprintf(&b, "  what to do: %s\n", m.Remedy)
	}
	return b.String()
}

var kindNames = map[reason.Kind]string{
	reason.KindText: "a text", reason.KindReason: "another reason", reason.KindNumber: "a number", reason.KindJobState: "a state of a job",
	reason.KindNodeState: "a state of a node", reason.KindError: "an error type", reason.KindGPUs: "a number of GPUs", reason.KindDuration: "a duration",
}

// block is a range of codes that explain the same kind of thing: all from First to the next block.
type block struct {
	first reason.Code
	about string
}

var blocks = []block{
	{reason.WaitsForJobs, "why a job is where it is"},
	{reason.DrainedByOperator, "why a node or a GPU is as it is"},
	{reason.NoNodeReady, "why jobs wait"},
	{reason.NoJob, "why a request about a job is refused"},
	{reason.JobIs, "why a placement, or the loss of a node, is refused"},
	{reason.NoNode, "why a request about a node, a queue, a quota, a token, a launcher or a coordinator is refused"},
	{reason.Vouched, "messages of the audit log"},
	{reason.NotRetained, "why a checkpoint is as it is"},
	{reason.NoParentQueue, "queues in a tree, and the policy of the scheduler"},
	{reason.PreemptedFor, "preemption"},
	{reason.MaxParallelReached, "job arrays"},
	{reason.PromiseEarlier, "reserved starts"},
	{reason.TimeLimitNear, "time limits, maintenance and reservations"},
	{reason.NeedsDomain, "domains between nodes, and excluded nodes"},
	{reason.QuotaOfHours, "quotas by type and by hours, and guarantees"},
	{reason.PlacesHeld, "places that are kept for a job"},
	{reason.BadSchedule, "schedules"},
	{reason.NoCore, "Cores, their executions and decisions"},
	{reason.NoSession, "sessions of users"},
	{reason.HeldByUser, "jobs that users steer while they wait or stop"},
	{reason.NoFlow, "flows, their versions and the rights on them"},
	{reason.QuotaOfSubmissions, "what every tenant is bounded by"},
	{reason.SliceAlone, "a slice of a GPU"},
}

// about returns what codes of the block of a code explain.
func about(c reason.Code) string {
	i, found := slices.BinarySearchFunc(blocks, c, func(b block, c reason.Code) int { return int(b.first) - int(c) })
	if !found {
		i--
	}
	return blocks[i].about
}

// remedies say what to do about a reason whose sentence does not say it.
var remedies = map[reason.Code]string{
	reason.WaitsForJobs:        "wait, or submit the job again without --after",
	reason.NotYetDue:           "wait until then",
	reason.HeldForRecovery:     "bring the missing nodes back, or run `mind node forget NODE` for those that are gone",
	reason.DependencyGone:      "submit the job again with a dependency that exists",
	reason.PreemptedForGood:    "submit the job again without --no-restart, or with a higher priority",
	reason.DrainedForGood:      "submit the job again without --no-restart",
	reason.TimeLimitReached:    "submit the job again with a larger --time-limit",
	reason.RanTooLong:          "submit the job again with a larger --time-limit",
	reason.NoProgress:          "read `mind logs JOB`, mend what ends the attempts, and run `mind retry JOB`",
	reason.BadFigures:          "report one JSON object of numbers, and not more of them than the limit",
	reason.DrainedByOperator:   "`mind enable NODE` ends the drain",
	reason.NodeSilent:          "see whether the node and its agent run, and whether the coordinators can be reached from there",
	reason.NodeSilentButRenews: "see why the coordinators cannot be reached from the node, while its peers can",
	reason.GPUVanished:         "see what nvidia-smi says on the node; drain it if the GPU does not come back",
	reason.NoNodeReady:         "`mind nodes` says what each node lacks",
	reason.NeedsLabels:         "give a node the labels, or submit the job with another --node-selector",
	reason.NeedsGPUs:           "submit the job without GPUs, or add nodes that have some",
	reason.NeedsSuchGPUs:       "submit the job with another --gpu-type, or without one",
	reason.NeedsAbleNodes:      "`mind explain JOB` says what the other nodes lack",
	reason.NeedsFraction:       "wait, or submit the job with a smaller --gpu-fraction",
	reason.NeedsFreeGPUs:       "wait, or see `mind explain JOB` for single changes with which it would start now",
	reason.NeedsFreeNodes:      "wait, or see `mind explain JOB` for single changes with which it would start now",
	reason.NeedsLinkedGPUs:     "wait, or submit the job with --topology any",
	reason.NeedsRoomBesideGPUs: "submit the job with fewer --cpus or less --memory",
	reason.NeedsFreeNode:       "wait, or see `mind explain JOB` for single changes with which it would start now",
	reason.NeedsDomain:         "wait, or submit the job with a wider --topology-level",
	reason.WithoutExcluded:     "submit the job with less of --exclude",
	reason.QuotaOfRunning:      "wait until jobs of the tenant end, or have the quota raised: `mind quota set TENANT`",
	reason.QuotaOfGPUs:         "wait until jobs of the tenant end, or have the quota raised: `mind quota set TENANT`",
	reason.QuotaBelowNeed:      "have the quota raised, `mind quota set TENANT`, or submit the job with fewer GPUs",
	reason.QuotaOfType:         "wait until jobs of the tenant end, or have the quota raised: `mind quota set TENANT`",
	reason.QuotaTypeBelowNeed:  "have the quota raised, `mind quota set TENANT`, or submit the job with fewer GPUs",
	reason.QueueOfGPUs:         "wait until jobs of the queue end, or submit the job to another queue",
	reason.QueueBelowNeed:      "submit the job to another queue, or have its limit raised: `mind queues put QUEUE`",
	reason.QueueOfType:         "wait until jobs of the queue end, or submit the job to another queue",
	reason.StopsForHours:       "save a checkpoint, or have the quota raised: `mind quota set TENANT --max-gpu-hours`",
	reason.StoppedForHours:     "have the quota raised: `mind quota set TENANT --max-gpu-hours`",
	reason.EndedForHours:       "submit the job again with --preemptible, so that it waits for the next month instead",
	reason.MaxParallelReached:  "wait, or submit the array with a larger max_parallel",
	reason.PreemptsOthers:      "wait until the preempted jobs have saved and stopped",
	reason.UnderMaintenance:    "`mind maintenance` says until when",
	reason.NodesKept:           "give the job a --time-limit that ends before the maintenance or reservation begins",
	reason.NodeReserved:        "`mind reservations` says until when",
	reason.NotRetained:         "pin checkpoints that are to stay: `mind checkpoint pin CHECKPOINT`",
	reason.NoJob:               "`mind jobs` lists your jobs; those of other tenants are not shown",
	reason.NoNode:              "`mind nodes` lists the nodes",
	reason.NoQueue:             "`mind queues` lists the queues",
	reason.NoCheckpoint:        "`mind checkpoints JOB` lists the checkpoints of a job",
	reason.NoSchedule:          "`mind schedule` lists the schedules of your tenant",
	reason.NoToken:             "`mind token list` lists the tokens of your tenant",
	reason.NoWindow:            "`mind maintenance` and `mind reservations` list what is arranged",
	reason.TooFewVotes:         "see whether the coordinators reach each other: `mind raft peers`",
	reason.ScheduleTooLate:     "let the schedule start later: `mind schedule put NAME --start-within`",
	reason.ScheduleOverlaps:    "let runs overlap, or replace each other: `mind schedule put NAME --overlap`",
}
