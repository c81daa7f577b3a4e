package main

// drawnMutants are mistakes about the flows that people draw.
var drawnMutants = []mutant{
	{
		Name: "save-over-the-save-of-another", Breaks: "I24", File: "fsm/flowverbs/save.go",
		What: "a content is saved over a version that it was not made from",
		Old:  `c.BasedOn == "" || c.BasedOn != old.Version && !same`, New: `c.BasedOn == ""`,
		Package: "fsm", Tests: []string{"TestFlows_aSaveNamesWhatItIsBasedOn"},
	},
	{
		Name: "current-content-leaves-the-state", Breaks: "I24", File: "fsm/flows/tables.go",
		What:    "the state keeps no content that the archive has, also that of the current version",
		Old:     "if f, ok := l.flows.Get(v.Flow); ok && f.Number != v.Number {",
		New:     "if f, ok := l.flows.Get(v.Flow); ok && f.Number != 0 {",
		Package: "fsm", Tests: []string{"TestFlows_contentsGoToTheArchive"},
	},
	{
		Name: "archived-before-it-is-written", Breaks: "I24", File: "coordinator/flows/lead.go",
		What:    "a content leaves the state although the archive could not be written",
		Old:     "		if fault != nil {\n			break\n		}\n",
		New:     "",
		Package: "coordinator", Tests: []string{"TestFlows_stayWithoutTheirArchive"},
	},
	{
		Name: "archive-shows-another-content", Breaks: "I24", File: "coordinator/flows/stored.go",
		What:    "a content of the archive is shown whatever it is",
		Old:     "if !ok || hex.EncodeToString(sum[:]) != v.Content.Digest {",
		New:     "if !ok || len(sum) == 0 {",
		Package: "coordinator", Tests: []string{"TestFlows_contentsAreArchived"},
	},
	{
		Name: "flow-of-another-tenant", Breaks: "I11", File: "fsm/flows/acl.go",
		What: "an administrator of another tenant has rights on a flow",
		Old:  " || f.Tenant != c.Tenant", New: "",
		Package: "fsm", Tests: []string{"TestFlows_rights"},
	},
	{
		Name: "group-is-a-user", Breaks: "security.md", File: "fsm/flows/acl.go",
		What: "a user with the name of a group has the rights of the group",
		Old:  "a.PrincipalType == User && a.Principal == c.User", New: "a.Principal == c.User",
		Package: "fsm", Tests: []string{"TestFlows_rights"},
	},
	{
		Name: "deleted-flow-is-there", Breaks: "designer.md", File: "fsm/flows/acl.go",
		What: "a deleted flow can be read and changed",
		Old:  "f == nil || f.DeletedAt != 0 ||", New: "f == nil ||",
		Package: "fsm", Tests: []string{"TestFlows_deletedOnesGoLater"},
	},
	{
		Name: "deployed-version-goes", Breaks: "designer.md", File: "fsm/flowverbs/put.go",
		What: "the version of a deployment goes when it is old",
		Old:  " && !used[v.Number]", New: "",
		Package: "fsm", Tests: []string{"TestFlows_keepWhatWasDeployed"},
	},
	{
		Name: "deploy-makes-another-core", Breaks: "designer.md", File: "coordinator/flows/deploy.go",
		What: "a deployment that is repeated after a crash makes a second Core",
		Old:  `origin["source_id"] == f.ID.String()`, New: `origin["source_id"] == ""`,
		Package: "coordinator", Tests: []string{"TestFlows_deployAgainAndRefuse"},
	},
	{
		Name: "groups-only-write", Breaks: "designer.md", File: "gateway/rest/request.go",
		What: "the groups of a caller do not count when a flow is read",
		Old:  "if x.Route.Write || x.Route.Bare {", New: "if x.Route.Write {",
		Package: "gateway/flows", Tests: []string{"TestFlows_saysWhoAsks"},
	},
}
