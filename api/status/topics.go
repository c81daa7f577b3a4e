package status

// The topics that watchers of events may ask for. Those of Cores take the permission of ScaiCore, the others that of ScaiMind.
var (
	MindTopics = []string{"job", "lease", "checkpoint", "node", "queue", "quota", "policy", "window", "schedule", "coordinator"}
	CoreTopics = []string{"core", "execution", "decision"}
)
