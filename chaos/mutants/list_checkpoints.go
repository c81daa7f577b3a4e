package main

// checkpointMutants are mistakes with archived and transferred checkpoints, and with the access to them.
var checkpointMutants = []mutant{
	{
		Name: "stored-by-another-node", Breaks: "I9", File: "fsm/work/checkpointverbs/report.go",
		What: "a node is believed that another node's checkpoint is in the archive",
		Old:  "case c.Node != node:", New: "case node == \"\":",
		Package: "fsm", Tests: []string{"TestArchive_onlyWhoHasTheOrderIsBelieved"},
	},
	{
		Name: "stored-under-another-key", Breaks: "I9", File: "fsm/work/checkpointverbs/report.go",
		What: "a checkpoint is DURABLE although something else was uploaded",
		Old:  "case r.Key != c.ArchiveKey() || r.Digest", New: "case r.Digest",
		Package: "fsm", Tests: []string{"TestArchive_onlyWhoHasTheOrderIsBelieved"},
	},
	{
		Name: "removed-though-written-over", Breaks: "checkpoints.md", File: "agent/checkpoints/files.go",
		What: "retention removes files that are not those that were registered",
		Old:  "case !same:", New: "case err != nil && !same:",
		Package: "agent/checkpoints", Tests: []string{"TestRemoveFiles_thatHaveChanged"},
	},
	{
		Name: "another-checkpoint-in-the-archive", Breaks: "I9", File: "agent/datacache/sources/checkpoint.go",
		What: "a task resumes from whatever is under the key",
		Old:  "saved.Digest() != want.Digest:", New: "saved.Digest() == \"\":",
		Package: "agent/datacache", Tests: []string{"TestACheckpointOfTheArchiveIsWhatItWas"},
	},
	{
		Name: "list-not-compared", Breaks: "I9", File: "agent/transfer/client.go",
		What: "a checkpoint is fetched from another node although other files were registered",
		Old:  "if !observe.Listed(listed, r.point.GetManifestDigest()) {", New: "if observe.Listed(listed, \"\") {",
		Package: "agent/transfer", Tests: []string{"TestFetch_theListIsComparedWithTheManifest"},
	},
	{
		Name: "served-though-changed", Breaks: "I9", File: "agent/checkpoints/serve.go",
		What: "a file is sent although it is not the one that was listed",
		Old:  "if err == nil && is != listed {", New: "if err == nil && is == \"\" {",
		Package: "agent/transfer", Tests: []string{"TestServe_aFileThatChangesIsNotSent"},
	},
	{
		Name: "served-from-anywhere", Breaks: "security.md", File: "agent/checkpoints/serve.go",
		What: "a checkpoint is served from the agent's own directories",
		Old:  "if k.hides(filepath.Join(above, below), of.GetTenantId()) {", New: "if above == \"\" {",
		Package: "agent/transfer", Tests: []string{"TestServe_onlyFromTheDirectoriesOfTheJob"},
	},
	{
		Name: "served-though-not-registered", Breaks: "security.md", File: "coordinator/output/serve.go",
		What: "a node serves what another node has registered",
		Old:  "c.Node != req.GetNodeId() || ", New: "",
		Package: "coordinator", Tests: []string{"TestCluster_whoServesACheckpointToWhom"},
	},
	{
		Name: "served-to-anybody", Breaks: "security.md", File: "coordinator/output/serve.go",
		What: "a node gets checkpoints that none of its tasks needs",
		Old:  "case !needs(v, req.GetReaderNodeId(), c):", New: "case req.GetReaderNodeId() == \"\":",
		Package: "coordinator", Tests: []string{"TestCluster_whoServesACheckpointToWhom"},
	},
	{
		Name: "rank-0-decides-alone", Breaks: "checkpoints.md", File: "agent/inputs/agreement.go",
		What: "rank 0 resumes from a checkpoint before the others have it",
		Old:  "case waits == 0:", New: "case waits >= 0:",
		Package: "agent/inputs", Tests: []string{"TestAgree_rank0WaitsForAll"},
	},
	{
		Name: "decided-again", Breaks: "checkpoints.md", File: "agent/inputs/agreement.go",
		What: "an agent that starts again forgets what its tasks agreed on",
		Old:  "a.proposal, a.point, a.decided = 1, point, true", New: "a.point = point",
		Package: "agent/inputs", Tests: []string{"TestAgree_aDecisionOutlivesTheAgent"},
	},
}
