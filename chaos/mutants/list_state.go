package main

// mutants are all mutants, in the order of the parts of Mind.
var mutants = concat(stateMutants, sharingMutants, coordinatorMutants, agentMutants, checkpointMutants, edgeMutants, flowMutants, gateMutants, sessionMutants, boundMutants, drawnMutants)

func concat(lists ...[]mutant) (all []mutant) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// stateMutants are mistakes in the replicated state, and in its replication.
var stateMutants = []mutant{
	{
		Name: "fencing-not-checked", Breaks: "I3", File: "fsm/work/jobverbs/report.go",
		What: "reports under another attempt or token are believed",
		Old:  "old.Attempt != r.Attempt || old.Token != r.Token ||", New: "",
		Package: "fsm", Tests: []string{"TestReport_fromStaleHoldersIsRefused"},
	},
	{
		Name: "checkpoint-without-manifest", Breaks: "I9", File: "fsm/work/jobverbs/report.go",
		What: "a checkpoint without a manifest is taken in",
		Old:  `r.Kind == ReportCheckpoint && r.Digest == ""`, New: "false",
		Package: "fsm", Tests: []string{"TestCheckpoint_needsTheDigestOfItsManifest"},
	},
	{
		Name: "loss-by-a-minority", Breaks: "I6", File: "fsm/work/nodeverbs/lose.go",
		What: "one vote is enough to lose a node",
		Old:  "if 2*dead <= voters {", New: "if dead == 0 {",
		Package: "fsm", Tests: []string{"TestLoseNode_countsTheVotesOfItsOwnVoters"},
	},
	{
		Name: "voter-counts-twice", Breaks: "I6", File: "fsm/work/nodeverbs/lose.go",
		What:    "a voter that votes twice counts twice",
		Old:     "says, denies = says || v.Dead, denies || !v.Dead",
		New:     "if denies = denies || !v.Dead; v.Dead {\n\t\t\t\tdead++\n\t\t\t}",
		Package: "fsm", Tests: []string{"TestLoseNode_countsTheVotesOfItsOwnVoters"},
	},
	{
		Name: "vote-of-a-stranger", Breaks: "I6", File: "fsm/work/nodeverbs/lose.go",
		What: "votes of coordinators outside of the configuration count",
		Old:  "if v.Coordinator != voter || v.Incarnation", New: "if voter == \"\" || v.Incarnation",
		Package: "fsm", Tests: []string{"TestLoseNode_countsTheVotesOfItsOwnVoters"},
	},
	{
		Name: "vote-on-an-earlier-start", Breaks: "I6", File: "fsm/work/nodeverbs/lose.go",
		What: "a vote about an earlier start of the agent counts",
		Old:  "|| v.Incarnation > 0 && v.Incarnation < n.Incarnation", New: "",
		Package: "fsm", Tests: []string{"TestLoseNode_countsTheVotesOfItsOwnVoters"},
	},
	{
		Name: "lost-after-ignored", Breaks: "I6", File: "fsm/work/tables/losable.go",
		What: "tasks are lost before `lost_after` has passed",
		Old:  "case silent < j.SilenceUntilLost():", New: "case silent < 0:",
		Package: "fsm", Tests: []string{"TestLoseNode_takesOnlyWhatIsReplacedAndDue"},
	},
	{
		Name: "gpus-not-verified-again", Breaks: "I1", File: "fsm/work/lifecycle/place.go",
		What: "a plan is not checked again for what is free",
		Old:  "old.Shape, t.GPUs); r != nil {", New: "old.Shape, t.GPUs); r != nil && i < 0 {",
		Package: "fsm", Tests: []string{"TestPlace_isVerifiedPieceByPiece"},
	},
	{
		Name: "half-a-gang-is-placed", Breaks: "I2", File: "fsm/work/lifecycle/place.go",
		What: "fewer tasks than the job has get leases",
		Old:  "case len(p.Tasks) != int(old.Shape.Nodes):", New: "case len(p.Tasks) == 0:",
		Package: "fsm", Tests: []string{"TestPlace_isVerifiedPieceByPiece"},
	},
	{
		Name: "replacement-anywhere", Breaks: "R3", File: "fsm/work/loss.go",
		What: "a replacement goes to nodes that the lost one would not ask",
		Old:  "if n.RosterSince == 0 || n.RosterSince > j.Awaits[i].Roster {", New: "if n.RosterSince == 0 || i < 0 {",
		Package: "fsm", Tests: []string{"TestAwaits_limitWhereTheNextAttemptGoes"},
	},
	{
		Name: "lease-ends-with-its-rank", Breaks: "I2", File: "fsm/work/lifecycle/attempt.go",
		What:    "a lease is given back when its rank ends, not with the attempt",
		Old:     "if t.StartedAt == 0 && exit != nil {",
		New:     "tx.Release(tables.LeaseKey{Node: t.Node, Job: j.ID, Rank: rank}, j)\n\tif t.StartedAt == 0 && exit != nil {",
		Package: "fsm", Tests: []string{"TestGang_failsAsOne", "TestLoseNode_oneRankEndsTheGangAndNoLeaseIsGivenOnBefore"},
	},
	{
		Name: "never-off-the-roster", Breaks: "R3", File: "fsm/work/lifecycle/roster.go",
		What: "a node that left the roster keeps the index at which it had joined",
		Old:  "n.RosterSince = 0\n", New: "",
		Package: "fsm", Tests: []string{"TestRoster_isWhoCanBeReached"},
	},
	{
		Name: "given-up-too-soon", Breaks: "R3", File: "fsm/work/clusterverbs/tick.go",
		What: "tasks are given up within a new leader's fresh period",
		Old:  "if c.Settled {", New: "if true {",
		Package: "fsm", Tests: []string{"TestTick_givesUpOnWhatNothingWouldReplace", "TestAwaits_ofATaskGivenUp"},
	},
	{
		Name: "idempotency-key-ignored", Breaks: "I4", File: "fsm/work/jobverbs/submit.go",
		What: "the same key makes another job",
		Old:  "if first != nil {", New: "if first != nil && first.Job == 0 {",
		Package: "fsm", Tests: []string{"TestSubmit_idempotency"},
	},
	{
		Name: "success-is-not-final", Breaks: "I5", File: "fsm/work/transitions.go",
		What:    "SUCCEEDED may be left",
		Old:     `{v1.JobState_LOST, v1.JobState_QUEUED, "retry"},`,
		New:     `{v1.JobState_LOST, v1.JobState_QUEUED, "retry"}, {v1.JobState_SUCCEEDED, v1.JobState_QUEUED, "again"},`,
		Package: "fsm/work", Tests: []string{"TestCanMove_everyPair"},
	},
	{
		Name: "the-end-can-be-told-again", Breaks: "I5", File: "fsm/work/jobverbs/report.go",
		What: "a task that has ended can end again, otherwise",
		Old:  "if !old.Live() || old.Tasks[r.Rank].State == v1.TaskState_ENDED {", New: "if !old.Live() {",
		Package: "fsm", Tests: []string{"TestReport_theEndOfATaskIsToldOnce"},
	},
	{
		Name: "log-time-goes-back", Breaks: "I8", File: "fsm/kernel/machine.go",
		What: "the log's time follows a clock that was set back",
		Old:  "base.Now = max(base.Now, entry.stamp)", New: "base.Now = entry.stamp",
		Package: "fsm", Tests: []string{"TestEntry_timeNeverGoesBack"},
	},
	{
		Name: "hash-misses-a-field", Breaks: "I8", File: "fsm/work/hash.go",
		What: "one field of a lease is not in the hash",
		Old:  "return f.Num(l.Token).Int(l.GrantedAt)", New: "return f.Num(l.Token)",
		Package: "fsm", Tests: []string{"TestHash_coversEveryField"},
	},
	{
		Name: "read-without-a-quorum", Breaks: "I4", File: "raftnode/read.go",
		What:    "a read does not wait for a majority's answers",
		Old:     "if err := n.transport.acks.quorum(r.ctx, mark, r.term, n.voterIDs()); err != nil {",
		New:     "if mark == 0 {",
		Package: "raftnode", Tests: []string{"TestReadIndex_lateAnswersProveNothing"},
	},
	{
		Name: "old-answers-prove-leadership", Breaks: "I4", File: "raftnode/read.go",
		What: "answers to earlier messages prove leadership",
		Old:  "got.term == term && got.mark >= mark", New: "got.term == term",
		Package: "raftnode", Tests: []string{"TestAcks_quorum"},
	},
	{
		Name: "failed-write-is-acknowledged", Breaks: "I4", File: "raftnode/store/latch.go",
		What: "a write that the disk refused counts as done",
		Old:  "if first {\n\t\tl.tripped(err)\n\t}\n\treturn failed", New: "_ = failed\n\treturn nil",
		Package: "raftnode", Tests: []string{"TestLatch_leaderWhoseDiskFailsStopsForGood"},
	},
	{
		Name: "log-is-not-synced", Breaks: "I4", File: "raftnode/store/store.go",
		What: "the votes, or the whole log, are not synced",
		Old:  "Path: path,\n\t\tBoltOptions:", New: "Path: path, NoSync: true,\n\t\tBoltOptions:",
		Package: "raftnode/store", Tests: []string{"TestStore_syncsEveryWrite"},
	},
	{
		Name: "full-segment-is-not-mended", Breaks: "I8", File: "raftnode/store/check_wal.go",
		What: "a coordinator that was killed when a segment of its log was full never writes again",
		Old:  "if walk.index == 0 {", New: "if walk.index >= 0 {",
		Package: "raftnode/store", Tests: []string{"TestOpen_afterACrashBetweenSealAndRotation"},
	},
	{
		Name: "damage-is-taken-for-a-crash", Breaks: "I4", File: "raftnode/store/segment.go",
		What: "the newest write of the log is dropped when a bit of it has changed",
		Old:  "damage := cutShort(b, written, from, end, w.header.BaseIndex+uint64(w.entries)); damage != nil", New: "damage := error(nil); damage != nil",
		Package: "raftnode/store", Tests: []string{"TestWalkSegment_anyBit"},
	},
	{
		Name: "lost-segment-is-begun-again", Breaks: "I4", File: "raftnode/store/reached.go",
		What: "a coordinator whose newest segment is gone forgets what it has acknowledged",
		Old:  "if last < reached {", New: "if last+1 == 0 {",
		Package: "raftnode/store", Tests: []string{"TestOpen_theNewestSegmentIsGone"},
	},
	{
		Name: "end-is-removed-unnoted", Breaks: "I8", File: "raftnode/store/reached.go",
		What: "a coordinator never starts again when raft has removed the end of its log",
		Old:  "if s.reached <= to {", New: "if s.reached >= to {",
		Package: "raftnode/store", Tests: []string{"TestOpen_afterTheEndWasRemoved"},
	},
	{
		Name: "log-is-moved-too-soon", Breaks: "I4", File: "raftnode/store/move.go",
		What:    "a crash while the log is moved loses it",
		Old:     "if err = errors.Join(err, reachedErr, old.Close()); err != nil {\n\t\treturn err\n\t}\n\tlog, err := c.openUnwatched()",
		New:     "if err = errors.Join(err, reachedErr, old.Close(), c.writeBolt(v, false, nil)); err != nil {\n\t\treturn err\n\t}\n\tlog, err := c.openUnwatched()",
		Package: "raftnode/store", Tests: []string{"TestOpen_killedAtEachStepOfAMove"},
	},
	{
		Name: "contradiction-counts", Breaks: "I6", File: "fsm/work/nodeverbs/lose.go",
		What: "a voter that says both counts",
		Old:  "if says && !denies {", New: "if says {",
		Package: "fsm", Tests: []string{"TestLoseNode_countsTheVotesOfItsOwnVoters"},
	},
	{
		Name: "loss-without-a-replacement-node", Breaks: "I6", File: "fsm/work/tables/losable.go",
		What: "tasks are lost although those who could run the replacement are not on the roster that the node kept",
		Old:  "m.RosterSince != 0 && m.RosterSince <= n.RosterAcked && j.MayRunOn(m)", New: "m.RosterSince != 0 && j.MayRunOn(m)",
		Package: "fsm", Tests: []string{"TestLoseNode_refusesWhatMayNotBeSaid"},
	},
	{
		Name: "survivor-is-to-blame", Breaks: "failure-model.md", File: "fsm/work/attempt.go",
		What: "an attempt ends by the exit that its peers' loss has caused, because it is heard of first",
		Old:  "return began <= j.Tasks[j.Ending.Rank].EndedAt+BlameWithin", New: "return began > j.Tasks[j.Ending.Rank].EndedAt+BlameWithin",
		Package: "fsm", Tests: []string{"TestPeer_whatTheAttemptEndsBy", "TestPeer_anyTimes"},
	},
	{
		Name: "launch-without-rank-0-is-to-blame", Breaks: "failure-model.md", File: "fsm/work/attempt.go",
		What: "an attempt ends by a launch that was given up because the node of rank 0 did not answer, and not by its loss",
		Old:  "e.ErrorType == v1.ErrorType_DATA_FETCH && e.ExitCode == nil", New: "false",
		Package: "fsm", Tests: []string{"TestPeer_whatTheAttemptEndsBy"},
	},
	{
		Name: "roster-of-today", Breaks: "R3", File: "fsm/work/lifecycle/attempt.go",
		What: "a replacement may go to an agent that joined the roster after the lost node had last kept it",
		Old:  "a.Roster = n.RosterAcked", New: "a.Roster = max(tx.meta.RosterVersion, n.RosterAcked)",
		Package: "fsm", Tests: []string{"TestAwaits_nobodyWhoJoinedAfterTheLostNodeLastHeard"},
	},
	{
		Name: "awaited-no-more-at-its-return", Breaks: "I2", File: "fsm/work/nodeverbs/register.go",
		What: "a node that is back with a lost task counts as without it",
		Old:  "return known && old.BootID == n.BootID && slices.Contains(c.Tasks, t)", New: "return known && old.BootID == n.BootID && slices.Contains(c.Tasks, t) && n.ID == \"\"",
		Package: "fsm", Tests: []string{"TestAwaits_endWhenTheTaskIsKnownToBeGone"},
	},
	{
		Name: "key-answers-another-request", Breaks: "I4", File: "fsm/work/keys/ring.go",
		What: "a key that is used for another request gets the first one's answer",
		Old:  "if k.Fingerprint != fingerprint || k.Action != action {", New: "if k.Action != action {",
		Package: "fsm", Tests: []string{"TestSubmit_idempotency"},
	},
	{
		Name: "lost-leadership-means-not-sent", Breaks: "I4", File: "raftnode/outcome.go",
		What: "a write that a deposed leader had begun counts as not sent",
		Old:  "raft.ErrLeadershipLost: outcomeUnknown,", New: "raft.ErrLeadershipLost: outcomeNotSent,",
		Package: "raftnode", Tests: []string{"TestWriteError_threeOutcomes"},
	},
	{
		Name: "timeouts-never-lengthen", Breaks: "L1", File: "raftnode/pace/pace.go",
		What: "a coordinator keeps its timeouts on a machine that is slow",
		Old:  "return max(p.measured, p.guessed)", New: "return p.base",
		Package: "raftnode", Tests: []string{"TestStarved_aLeaderWithinTenSecondsAndForLong", "TestStarved_comesAndGoes"},
	},
	{
		Name: "timeouts-never-shorten", Breaks: "L1", File: "raftnode/pace/pace.go",
		What: "a coordinator that was slow once stays patient",
		Old:  "now.Sub(p.noted) >= CalmFor &&", New: "p.base == 0 &&",
		Package: "raftnode/pace", Tests: []string{"TestPace_always"},
	},
	{
		Name: "recovered-jobs-not-held", Breaks: "I2", File: "fsm/work/lifecycle/recovery.go",
		What: "jobs are placed after a recovery although an attempt of which the state knows nothing may be alive",
		Old:  "\tj.Held |= work.HoldRecovery\n", New: "",
		Package: "fsm", Tests: []string{"TestRecover_whatEndedMeanwhileIsRunAgainAfterAllWereHeard", "TestRecover_waitsForTheLeasesOfNodesThatNobodyKnows"},
	},
	{
		Name: "lease-of-an-unknown-node", Breaks: "I2", File: "fsm/work/lifecycle/recovery.go",
		What: "a recovered job does not wait for its lease to run out on nodes that the state has never heard of",
		Old:  "tx.Meta.RecoveredAt + j.SilenceUntilLost() + recoverySettle", New: "tx.Meta.RecoveredAt",
		Package: "fsm", Tests: []string{"TestRecover_waitsForTheLeasesOfNodesThatNobodyKnows"},
	},
	{
		Name: "recovered-node-not-asked", Breaks: "I1", File: "fsm/work/clusterverbs/recover.go",
		What: "a node is given leases after a recovery before it has said what it runs",
		Old:  "\t\tn.Unheard = true\n", New: "",
		Package: "fsm", Tests: []string{"TestRecover_whatStillRunsGoesOn"},
	},
	{
		Name: "next-life-overlaps", Breaks: "I3", File: "raftnode/recovery/seed.go",
		What: "a new life begins at indices that the lost part of the log may have used",
		Old:  "return max(index+1, seconds<<lifeShift), max(term+1, seconds)", New: "return index + 1, max(term+1, seconds)",
		Package: "raftnode/recovery", Tests: []string{"TestNextLife"},
	},
	{
		Name: "infrastructure-spends-retries", Breaks: "concepts.md", File: "fsm/work/retry.go",
		What: "a restart after a fault of the infrastructure counts against `max_retries`",
		Old:  "return j.Retries.Exit", New: "return j.Retries.Exit + j.Retries.NodeLost + j.Retries.GPUFault + j.Retries.LaunchFailed + j.Retries.DataFetch",
		Package: "fsm", Tests: []string{"TestRestart_countsExitsAlone"},
	},
	{
		Name: "no-progress-runs-for-ever", Breaks: "concepts.md", File: "fsm/work/lifecycle/restarts.go",
		What: "attempts that bring nothing new follow each other without end",
		Old:  "} else if s.Fruitless++; s.Fruitless >= work.MaxFruitless {", New: "} else if s.Fruitless++; s.Fruitless == 0 {",
		Package: "fsm", Tests: []string{"TestRestart_noProgress"},
	},
	{
		Name: "restarts-without-a-pause", Breaks: "concepts.md", File: "fsm/work/lifecycle/restarts.go",
		What: "a job that fails again and again is restarted at once each time",
		Old:  "s.After = tx.Now + pause", New: "s.After = tx.Now",
		Package: "fsm", Tests: []string{"TestRestart_waitsLongerEachTime"},
	},
	{
		Name: "not-restartable-is-restarted", Breaks: "I2", File: "fsm/work/retry.go",
		What: "a job that is not restartable gets another attempt, although its agent was told that nothing replaces it",
		Old:  "case j.Retry.Never, j.Retry.On&cause == 0:", New: "case j.Retry.On&cause == 0:",
		Package: "fsm", Tests: []string{"TestRestart_byCause"},
	},
	{
		Name: "group-counts-who-has-left", Breaks: "rest.md", File: "fsm/work/groups/groups.go",
		What: "a list counts jobs that have changed their state since",
		Old:  "\tg.jobs--\n", New: "",
		Package: "fsm", Tests: []string{"TestSnapshot_restoresTheSameState"},
	},
	{
		Name: "renamed-before-it-is-synced", Breaks: "I4", File: "durable/durable.go",
		What: "a file has its name before its content is on the disk",
		Old:  "err := f.file.Sync()\n", New: "var err error\n",
		Package: "durable", Tests: []string{"TestAPowerCutLeavesTheOldFileOrTheNewOne"},
	},
	{
		Name: "directory-not-synced", Breaks: "I4", File: "durable/durable.go",
		What: "a file counts as replaced while its directory is not synced",
		Old:  "return f.disk.SyncDir(filepath.Dir(f.name))", New: "return nil",
		Package: "durable", Tests: []string{"TestAPowerCutLeavesTheOldFileOrTheNewOne"},
	},
}
