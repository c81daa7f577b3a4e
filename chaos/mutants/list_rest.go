package main

// coordinatorMutants are mistakes of the coordinator, and of the scheduler that its leader runs.
var coordinatorMutants = []mutant{
	{
		Name: "renewed-without-proof", Breaks: "I6", File: "coordinator/renewals.go",
		What: "heartbeats are acknowledged although leadership was not proven",
		Old:  "if err := r.verify(ctx); err != nil {\n\t\treturn err\n\t}", New: "_ = r.verify(ctx)",
		Package: "coordinator", Tests: []string{"TestRenewer_acknowledgesOnlyWhatArrivedBeforeTheProofBegan"},
	},
	{
		Name: "renewed-after-the-proof", Breaks: "I6", File: "coordinator/renewals.go",
		What: "heartbeats that came after the proof began are acknowledged with it",
		Old:  "w.session.renewed.Store(w.heartbeat)", New: "w.session.renewed.Store(w.session.heartbeat.Load())",
		Package: "coordinator", Tests: []string{"TestRenewer_acknowledgesOnlyWhatArrivedBeforeTheProofBegan"},
	},
	{
		Name: "relayed-counts-as-reachable", Breaks: "R1", File: "coordinator/sessions.go",
		What: "a renewal through a peer makes its node reachable",
		Old:  "t.relayed[node] = time.Now()", New: "t.relayed[node], t.seen[node] = time.Now(), time.Now()",
		Package: "coordinator", Tests: []string{"TestSessionTable_relayedRenewalsCountForTheLeaseAlone"},
	},
	{
		Name: "trusted-at-once", Breaks: "R3", File: "coordinator/sessions.go",
		What: "a node may run replacements as soon as it is in session",
		Old:  "now.Sub(s.began.Add(begun)) > settleTime && ", New: "",
		Package: "coordinator", Tests: []string{"TestSessionTable_whoIsSettled"},
	},
	{
		Name: "ignorance-is-a-vote", Breaks: "I6", File: "coordinator/votes.go",
		What: "a coordinator that knows nothing of a node calls it dead",
		Old:  "Dead: warm && company,", New: "Dead: warm || !company,",
		Package: "coordinator", Tests: []string{"TestVotes_whatGossipSaysOfANode"},
	},
	{
		Name: "event-ring-forgets-that-it-forgot", Breaks: "I10", File: "coordinator/eventlog.go",
		What: "a watcher goes on behind events that are gone",
		Old:  "l.floor, l.floorPos = at.Index, at.Pos\n", New: "",
		Package: "coordinator", Tests: []string{"TestEventLog_goesOnFromAnywhere"},
	},
	{
		Name: "tenant-not-checked", Breaks: "I11", File: "coordinator/jobs.go",
		What: "a job is found by who knows its id, whatever the tenant",
		Old:  "ok && j.Tenant == c.tenant {", New: "ok {",
		Package: "coordinator", Tests: []string{"TestCluster_tenantsSeeOnlyTheirOwn"},
	},
	{
		Name: "failed-node-not-avoided", Breaks: "I2", File: "scheduler/own.go",
		What: "the next attempt goes to the node that failed",
		Old:  "if job.Avoids(h.node.ID) {", New: "if false {",
		Package: "scheduler", Tests: []string{"TestPlan_staysAwayFromWhereItFailed"},
	},
	{
		Name: "replacement-on-whom-nobody-trusts", Breaks: "R3", File: "scheduler/own.go",
		What: "a plan takes nodes that are not in session for long enough",
		Old:  "if job.Replacement() && !p.isSettled(i, settled) {", New: "if false {",
		Package: "scheduler", Tests: []string{"TestPlan_replacementsGoWhereTheLostNodeWouldAsk"},
	},
	{
		Name: "proof-of-another-reign", Breaks: "I6", File: "coordinator/renewals.go",
		What: "a proof of a later reign confirms the renewals of an earlier one",
		Old:  "case now != term:", New: "case now == 0:",
		Package: "coordinator", Tests: []string{"TestVerify_aLaterReignProvesNothing"},
	},
	{
		Name: "vote-in-anothers-name", Breaks: "I6", File: "coordinator/votes.go",
		What: "who answers at a voter's address votes for it",
		Old:  "if resp.GetCoordinatorId() != voter {", New: "if resp.GetCoordinatorId() == \"\" {",
		Package: "coordinator", Tests: []string{"TestPoll_whoAnswersForAnotherIsNotCounted"},
	},
	{
		Name: "relayed-after-a-reboot", Breaks: "R1", File: "coordinator/renewals.go",
		What: "a renewal after a restart of the machine renews what ran before it",
		Old:  "return row.BootID == boot && row.LostSince == 0", New: "return boot != \"\" && row.LostSince == 0",
		Package: "coordinator", Tests: []string{"TestRelay_renewsOnlyWhatTheStateKnows"},
	},
	{
		Name: "relayed-though-lost", Breaks: "R1", File: "coordinator/renewals.go",
		What: "a node that was declared lost renews through its peers",
		Old:  "return row.BootID == boot && row.LostSince == 0", New: "return row.BootID == boot",
		Package: "coordinator", Tests: []string{"TestMayRenew_nothingOfANodeThatWasDeclaredLost"},
	},
	{
		Name: "handshakes-all-at-once", Breaks: "L1", File: "coordinator/handshakes.go",
		What: "handshakes of agents and callers take all processors",
		Old:  "if t.free > 0 {", New: "if t.most > 0 {",
		Package: "coordinator", Tests: []string{"TestHandshakes_takeTurns"},
	},
}

// agentMutants are mistakes on the nodes.
var agentMutants = []mutant{
	{
		Name: "runs-on-unasked", Breaks: "R2", File: "agent/lease/keeper.go",
		What: "a task runs on although a peer has not answered",
		Old:  "if !ok || now-at > int64(k.timing.Window) {", New: "if !ok {\n\t\t\tcontinue\n\t\t}\n\t\tif now-at > int64(k.timing.Window) {",
		Package: "agent/lease", Tests: []string{"TestRunOn"},
	},
	{
		Name: "runs-on-by-stale-answers", Breaks: "R2", File: "agent/lease/keeper.go",
		What: "a task runs on by answers that are too old",
		Old:  "if !ok || now-at > int64(k.timing.Window) {", New: "if !ok {",
		Package: "agent/lease", Tests: []string{"TestRunOn"},
	},
	{
		Name: "runs-on-without-a-roster", Breaks: "R2", File: "agent/lease/keeper.go",
		What: "a task runs on when there is no roster on disk",
		Old:  "if !k.rostered {", New: "if k.rostered && k.peers == nil && now < 0 {",
		Package: "agent/lease", Tests: []string{"TestWithoutARosterNothingRunsOn"},
	},
	{
		Name: "renewed-as-of-the-answer", Breaks: "R2", File: "agent/lease/keeper.go",
		What: "a lease is renewed as of the answer, not of the sending",
		Old:  "sentAt := k.unanswered[at].sentAt", New: "sentAt := k.unanswered[len(k.unanswered)-1].sentAt",
		Package: "agent/lease", Tests: []string{"TestALeaseIsRenewedAsOfTheSending"},
	},
	{
		Name: "replacement-at-once", Breaks: "R3", File: "agent/lease/keeper.go",
		What: "a replacement does not wait for the agent's last answer to run out",
		Old:  "return now-since > int64(k.timing.Window+k.timing.Settle)", New: "return now >= since",
		Package: "agent/lease", Tests: []string{"TestReplacementsWait"},
	},
	{
		Name: "agent-does-not-ask-before-a-replacement", Breaks: "R3", File: "agent/leases.go",
		What: "the agent launches a replacement like any task",
		Old:  "case spec.GetReplacement() && !keeper.MayLaunchReplacement(now):", New: "case spec.GetReplacement() && now < 0:",
		Package: "agent", Tests: []string{"TestAReplacementWaitsUntilItsPredecessorIsGone"},
	},
	{
		Name: "reports-dropped-before-they-are-acknowledged", Breaks: "I4", File: "agent/outbox.go",
		What: "an acknowledgement drops later reports, too",
		Old:  "for n < o.sent && o.items[n].body.GetSeq() <= seq {", New: "for n < o.sent {",
		Package: "agent", Tests: []string{"TestOutboxKeepsOrderUntilAcknowledged"},
	},
	{
		Name: "reports-not-sent-again", Breaks: "I4", File: "agent/outbox.go",
		What: "a new session does not begin with what was not acknowledged",
		Old:  "defer o.mu.Unlock()\n\to.sent = 0\n", New: "defer o.mu.Unlock()\n",
		Package: "agent", Tests: []string{"TestOutboxKeepsOrderUntilAcknowledged"},
	},
	{
		Name: "reports-sent-twice", Breaks: "I10", File: "agent/outbox.go",
		What: "reports are sent again in the same session",
		Old:  "o.sent += n\n\treturn batch", New: "o.sent += n / 2\n\treturn batch",
		Package: "agent", Tests: []string{"TestOutboxKeepsOrderUntilAcknowledged", "TestOutboxBoundsItsBatches"},
	},
	{
		Name: "shim-ignores-its-deadline", Breaks: "R2", File: "agent/shim/lease_linux.go",
		What: "the shim does not stop a task at its deadline",
		Old:  "if l.deadline.StopAt == 0 {", New: "if l.deadline.StopAt >= 0 {",
		Package: "agent/runner", Tests: []string{"TestTheShimAloneHoldsATaskToItsDeadline"},
	},
	{
		Name: "deadline-moves-back", Breaks: "R2", File: "agent/shim/lease.go",
		What:    "a deadline that was told later replaces a later one",
		Old:     "Deadline{StopAt: max(d.StopAt, other.StopAt), DeadBy: max(d.DeadBy, other.DeadBy),",
		New:     "Deadline{StopAt: other.StopAt, DeadBy: other.DeadBy,",
		Package: "agent/runner", Tests: []string{"TestADeadlineMovesOnlyOn"},
	},
	{
		Name: "removed-lines-not-said", Breaks: "I10", File: "agent/tasklog/reader.go",
		What: "a reader is not told that lines are gone",
		Old:  "gap, r.offset = &removed, base", New: "_, r.offset = removed, base",
		Package: "agent/tasklog", Tests: []string{"TestRetentionRemovesTheOldestAndSaysSo"},
	},
	{
		Name: "refused-lines-not-said", Breaks: "I10", File: "agent/tasklog/writer.go",
		What: "lines that the disk refused are not counted",
		Old:  "w.lose(rest, err)", New: "_ = rest",
		Package: "agent/tasklog", Tests: []string{"TestWhatTheDiskRefusesIsCounted"},
	},
	{
		Name: "closed-while-in-session", Breaks: "R3", File: "agent/lease/keeper.go",
		What: "an agent in session tells its peers that it has none",
		Old:  "if k.inSession {\n\t\treturn false\n\t}\n\tk.closedAnswer", New: "k.closedAnswer",
		Package: "agent/lease", Tests: []string{"TestReplacementsWait"},
	},
	{
		Name: "answer-that-does-not-bind", Breaks: "R3", File: "agent/lease/keeper.go",
		What: "an agent forgets that it told a peer that its session is closed",
		Old:  "k.closedAnswer, k.closedAnswers = max(k.closedAnswer, now), true", New: "k.closedAnswers = now != 0",
		Package: "agent/lease", Tests: []string{"TestReplacementsWait"},
	},
	{
		Name: "ping-counts-from-its-answer", Breaks: "R2", File: "agent/peers.go",
		What: "a peer's word counts from the answer, not from the question",
		Old:  "sentAt := p.agent.cfg.Machine.clock()\n\tanswer, err := v1.NewPeerServiceClient(conn).Ping(ctx, &v1.PingRequest{NodeId: p.agent.cfg.NodeID})", New: "answer, err := v1.NewPeerServiceClient(conn).Ping(ctx, &v1.PingRequest{NodeId: p.agent.cfg.NodeID})\n\tsentAt := p.agent.cfg.Machine.clock()",
		Package: "agent", Tests: []string{"TestAPeersWordCountsFromTheQuestion"},
	},
	{
		Name: "anybody-answers-for-a-peer", Breaks: "R2", File: "agent/peers.go",
		What: "who answers at a peer's address speaks for it",
		Old:  "&& answer.GetNodeId() == m.GetNodeId() {", New: "{",
		Package: "agent", Tests: []string{"TestOneWhoAnswersForAnotherIsNotBelieved"},
	},
	{
		Name: "roster-named-before-it-is-on-disk", Breaks: "R3", File: "agent/roster.go",
		What: "heartbeats name a roster that is not on disk yet",
		Old:  "if err := writeRoster(r.agent.cfg.DataDir, unwritten); err != nil {", New: "r.use(unwritten)\n\t\tif err := writeRoster(r.agent.cfg.DataDir, unwritten); err != nil {",
		Package: "agent", Tests: []string{"TestARosterThatIsNotOnDiskIsNotNamed"},
	},
}

// edgeMutants are mistakes at the door.
var edgeMutants = []mutant{
	{
		Name: "errors-not-scrubbed", Breaks: "I11", File: "gateway/errors.go",
		What: "internal error texts reach the caller",
		Old:  "message = entry.Message\n", New: "",
		Package: "gateway", Tests: []string{"TestErrors_everyCode"},
	},
	{
		Name: "permission-not-checked", Breaks: "I11", File: "gateway/server.go",
		What: "a route serves who lacks the permission",
		Old:  "if len(route.anyOf) > 0 && !caller.May(route.anyOf...) {", New: "if len(route.anyOf) > 99 {",
		Package: "gateway", Tests: []string{"TestAuthentication"},
	},
	{
		Name: "last-event-id-ignored", Breaks: "I10", File: "gateway/streams.go",
		What: "a stream that is resumed begins anew",
		Old:  "cursor := x.r.Header.Get(headerLastEventID)", New: `cursor := ""`,
		Package: "gateway", Tests: []string{"TestLogs_resumeByTheCaller"},
	},
	{
		Name: "told-again-by-a-replica-behind", Breaks: "I10", File: "coordinator/events.go",
		What: "a watcher that comes from a replica that was ahead is told again what it has heard",
		Old:  "e.Index < w.index || ", New: "",
		Package: "coordinator", Tests: []string{"TestWatcher_hearsNothingAgainFromAReplicaThatIsBehind"},
	},
	{
		Name: "joined-behind-the-ring", Breaks: "I10", File: "gateway/fanout/watcher.go",
		What: "a watcher joins a stream that has let go meanwhile what it was not given yet",
		Old:  " || place != nil && !place.has(s.start)", New: "",
		Package: "gateway/fanout", Tests: []string{"TestWatcher_doesNotJoinWhatHasGoneOnMeanwhile"},
	},
	{
		Name: "joined-and-told-again", Breaks: "I10", File: "gateway/fanout/watcher.go",
		What: "a watcher that joins a stream is given again what it has",
		Old:  "given := w.place.seen(m) && (moves ||", New: "given := w.place.seen(m) && (!moves ||",
		Package: "gateway/fanout", Tests: []string{"TestWatcher_eachLineOnceAndInOrder"},
	},
	{
		Name: "ids-of-the-others", Breaks: "I10", File: "gateway/fanout/watcher.go",
		What: "a watcher that joins a stream is given ids that tell how far the others are",
		Old:  "w.subject.Cursor(w.place)...", New: "id(frame, m)...",
		Package: "gateway/fanout", Tests: []string{"TestWatcher_eachLineOnceAndInOrder"},
	},
	{
		Name: "streams-shared-by-tenants", Breaks: "I11", File: "gateway/streams.go",
		What: "callers of two tenants share a stream",
		Old:  `subjectKey("logs", x.caller.Tenant, `, New: `subjectKey("logs", "", `,
		Package: "gateway", Tests: []string{"TestLogs_nobodySharesWithAnotherTenantOrAnotherWish"},
	},
	{
		Name: "stream-outlives-its-token", Breaks: "I11", File: "gateway/streams_token.go",
		What: "who opened a stream reads on with a token that was revoked",
		Old:  "case errors.Is(err, ErrInvalidToken), ", New: "case errors.Is(err, ErrInvalidToken) && now != nil, ",
		Package: "gateway", Tests: []string{"TestLogs_endWithTheToken"},
	},
	{
		Name: "index-of-the-future", Breaks: "I10", File: "coordinator/events.go",
		What: "a watcher waits for an index that the cluster never came to, and misses all before",
		Old:  "if err != nil || w.index <= v.Index() {", New: "if err != nil || v != nil {",
		Package: "coordinator", Tests: []string{"TestCluster_watchersSeeEverythingOnce"},
	},
	{
		Name: "token-for-another-tenant", Breaks: "I11", File: "gateway/tokens.go",
		What: "anybody makes tokens for other tenants",
		Old:  "request.TenantId != x.caller.Tenant && !operator {", New: "request.TenantId == x.caller.Tenant && !operator {",
		Package: "gateway", Tests: []string{"TestTokens_nobodyGivesWhatHeLacks"},
	},
	{
		Name: "unknown-outcome-is-repeated", Breaks: "I4", File: "api/client/invoke.go",
		What: "a write without a key is repeated when its outcome is unknown",
		Old:  "case status.Unknown:\n\t\treturn a.repeatable", New: "case status.Unknown:\n\t\treturn true",
		Package: "api/client", Tests: []string{"TestInvoke_outcomes"},
	},
}
