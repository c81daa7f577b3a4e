package main

// edgeMutants are mistakes at the edge: gateway, authentication and clients.
var edgeMutants = []mutant{
	{
		Name: "errors-not-scrubbed", Breaks: "I11", File: "gateway/rest/errors.go",
		What: "internal error texts reach the caller",
		Old:  "message = entry.Message\n", New: "",
		Package: "gateway", Tests: []string{"TestErrors_everyCode"},
	},
	{
		Name: "permission-not-checked", Breaks: "I11", File: "gateway/server.go",
		What: "a route serves callers without the permission",
		Old:  "if len(route.AnyOf) > 0 && !caller.May(route.AnyOf...) {", New: "if len(route.AnyOf) > 99 {",
		Package: "gateway", Tests: []string{"TestAuthentication"},
	},
	{
		Name: "last-event-id-ignored", Breaks: "I10", File: "gateway/stream/endpoints.go",
		What: "a stream that is resumed begins again",
		Old:  "cursor := x.R.Header.Get(rest.HeaderLastEventID)", New: `cursor := ""`,
		Package: "gateway/stream", Tests: []string{"TestLogs_resumeByTheCaller"},
	},
	{
		Name: "told-again-by-a-replica-behind", Breaks: "I10", File: "coordinator/events/watch.go",
		What: "a watcher that comes from a replica that was ahead is told again what it has heard",
		Old:  "e.Index < w.index || ", New: "",
		Package: "coordinator/events", Tests: []string{"TestWatcher_hearsNothingAgainFromAReplicaThatIsBehind"},
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
		Name: "streams-shared-by-tenants", Breaks: "I11", File: "gateway/stream/subjects.go",
		What: "callers of two tenants share a stream",
		Old:  `subjectKey("logs", call.Tenant, `, New: `subjectKey("logs", "", `,
		Package: "gateway/stream", Tests: []string{"TestLogs_nobodySharesWithAnotherTenantOrAnotherWish"},
	},
	{
		Name: "stream-outlives-its-token", Breaks: "I11", File: "gateway/rest/open.go",
		What: "an open stream goes on after its token was revoked",
		Old:  "case errors.Is(err, auth.ErrInvalidToken), ", New: "case errors.Is(err, auth.ErrInvalidToken) && now != nil, ",
		Package: "gateway/stream", Tests: []string{"TestLogs_endWithTheToken"},
	},
	{
		Name: "index-of-the-future", Breaks: "I10", File: "coordinator/events/watch.go",
		What: "a watcher waits for an index that the cluster never reached, and misses all events before it",
		Old:  "if err != nil || w.index <= v.Index() {", New: "if err != nil || v != nil {",
		Package: "coordinator", Tests: []string{"TestCluster_watchersSeeEverythingOnce"},
	},
	{
		Name: "token-for-another-tenant", Breaks: "I11", File: "gateway/credentials/tokens.go",
		What: "anybody makes tokens for other tenants",
		Old:  "request.TenantId != x.Caller.Tenant && !operator {", New: "request.TenantId == x.Caller.Tenant && !operator {",
		Package: "gateway/credentials", Tests: []string{"TestTokens_callersCannotGrantMoreThanTheyHave"},
	},
	{
		Name: "unknown-outcome-is-repeated", Breaks: "I4", File: "api/client/invoke.go",
		What: "a write without a key is repeated when its outcome is unknown",
		Old:  "case status.Unknown:\n\t\treturn a.repeatable", New: "case status.Unknown:\n\t\treturn true",
		Package: "api/client", Tests: []string{"TestInvoke_outcomes"},
	},
	{
		Name: "secrets-for-viewers", Breaks: "security.md", File: "gateway/rest/request.go",
		What: "callers that may only view jobs read the values of their environments",
		Old:  "return x.Caller == nil || !x.Caller.May(x.Route.Secrets...)", New: "return x.Caller == nil",
		Package: "gateway", Tests: []string{"TestSecrets_ofJobsAreForThoseWhoManageThem"},
	},
	{
		Name: "guesses-without-a-bound", Breaks: "security.md", File: "gateway/authlimit/authlimit.go",
		What: "each unknown token becomes a question to the leader",
		Old:  "if left > 0 || a.inFlight >= inFlight {", New: "if a.inFlight >= inFlight {",
		Package: "gateway/authlimit", Tests: []string{"TestBegin_aFloodOfGuessesIsFewLookups"},
	},
	{
		Name: "turned-away-and-forgotten", Breaks: "security.md", File: "gateway/authlimit/authlimit.go",
		What: "a caller that is refused because others at its address guessed is refused again",
		Old:  "\t\tl.turnAway(now, credential)\n", New: "",
		Package: "gateway/authlimit", Tests: []string{"TestBegin_aGoodCredentialBehindTheAddressOfAGuesser"},
	},
	{
		Name: "page-of-any-origin", Breaks: "security.md", File: "gateway/origins/origins.go",
		What: "a page of any origin may use the gateway from a browser",
		Old:  "AllowedOrigins: origins,", New: "AllowOriginFunc: func(string) bool { return true },",
		Package: "gateway", Tests: []string{"TestCORS_pagesOfTheConfiguredOrigins"},
	},
	{
		Name: "ready-without-a-leader", Breaks: "operations.md", File: "gateway/readiness/readiness.go",
		What: "a gateway is ready although what is sent to it is answered 503",
		Old:  "failing := v.Coordinators != checkOK || v.Leader != checkOK && !stale", New: "failing := v.Coordinators != checkOK",
		Package: "gateway", Tests: []string{"TestReady_withoutAQuorum"},
	},
	{
		Name: "outcome-of-the-last-try", Breaks: "I4", File: "api/client/invoke.go",
		What: "a call counts as not sent although one of its tries may have been",
		Old:  "a.touched = a.touched || a.peer.Addr != nil", New: "a.touched = a.peer.Addr != nil",
		Package: "api/client", Tests: []string{"TestInvoke_outcomeOfAllTries"},
	},
	{
		Name: "follow-hides-the-failure", Breaks: "cli.md", File: "cmd/mind/cli/jobs/submit.go",
		What: "`mind submit --follow` exits with 0 although the job failed",
		Old:  "if o.follow || o.wait {", New: "if o.wait {",
		Package: "cmd/mind/cli/jobs", Tests: []string{"TestSubmit_waitExitsAsTheJobDoes"},
	},
	{
		Name: "notices-not-in-turn", Breaks: "security.md", File: "coordinator/notify/choose.go",
		What: "each look for notices begins with the same tenant",
		Old:  "\t\t\tt.next = name + \"\\x00\"\n", New: "",
		Package: "coordinator/notify", Tests: []string{"TestLead_tenantsThatHangDoNotStallOthers"},
	},
	{
		Name: "old-notice-has-one-try", Breaks: "cores.md", File: "coordinator/notify/turn.go",
		What: "a notice that has waited for a day is given up when its first try fails",
		Old:  "time.Since(k.since) >= giveUp && k.at.fails-k.fails >= minTries", New: "time.Since(time.Unix(0, n.At)) >= giveUp",
		Package: "coordinator/notify", Tests: []string{"TestLead_anOldNoticeHasItsTries"},
	},
}
