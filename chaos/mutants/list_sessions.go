package main

// sessionMutants are mistakes about the sessions of browsers.
var sessionMutants = []mutant{
	{
		Name: "session-outlives-its-token", Breaks: "I23", File: "fsm/access/tokens.go",
		What: "a session goes on after its API token was revoked",
		Old:  "TokenResult{Token: t, ended: dropSessionsOf(tx, t.ID)}", New: "TokenResult{Token: t}",
		Package: "fsm", Tests: []string{"TestSessions_endWithTheirToken"},
	},
	{
		Name: "session-longer-than-its-token", Breaks: "I23", File: "fsm/access/session_commands.go",
		What: "a session lasts longer than the API token that it came from",
		Old:  "if token.ExpiresAt != 0 {", New: "if false {",
		Package: "fsm", Tests: []string{"TestSessions_endWithTheirToken"},
	},
	{
		Name: "session-of-another-user-revoked", Breaks: "I11", File: "fsm/access/session_commands.go",
		What: "a user ends the session of another user",
		Old:  " || s.User != c.User && !c.AnyUser {", New: " {",
		Package: "fsm", Tests: []string{"TestSessions"},
	},
	{
		Name: "session-pushes-out-another-user", Breaks: "security.md", File: "fsm/access/session_commands.go",
		What: "a user who signs in very often ends sessions of others",
		Old:  "if k.tenant != tenant || k.user != user {\n\t\t\treturn false\n\t\t}\n\t\tif ofUser", New: "if k.tenant != tenant {\n\t\t\treturn false\n\t\t}\n\t\tif ofUser",
		Package: "fsm", Tests: []string{"TestSessions_areBounded"},
	},
	{
		Name: "cookie-from-anywhere", Breaks: "security.md", File: "gateway/session/cookie.go",
		What: "the cookie of a session counts in requests of pages of other origins",
		Old:  `len(from) != 1 || from[0] != "same-origin"`, New: `len(from) > 1`,
		Package: "gateway/credentials", Tests: []string{"TestAttacks_cookies"},
	},
	{
		Name: "cross-origin-writes", Breaks: "security.md", File: "gateway/session/cookie.go",
		What: "a write of another origin is not refused as such",
		Old:  "if crossOrigin.Check(r) != nil {", New: "if crossOrigin.Check(r) != nil && r.Method == http.MethodGet {",
		Package: "gateway/credentials", Tests: []string{"TestAttacks_cookies"},
	},
	{
		Name: "cookie-in-the-clear", Breaks: "security.md", File: "gateway/session/cookie.go",
		What: "a session is made for a browser elsewhere without HTTPS",
		Old:  "loopback: err == nil && client.Unmap().IsLoopback() && loopbackHost(r.Host)", New: "loopback: err == nil && (client.Unmap().IsLoopback() || r.Host != \"\")",
		Package: "gateway/credentials", Tests: []string{"TestSessions_whereACookieMayBe"},
	},
	{
		Name: "proxy-hides-the-browser", Breaks: "security.md", File: "gateway/session/cookie.go",
		What: "a browser elsewhere counts as one on this machine, behind a proxy that is not trusted",
		Old:  " && !forwarded(r.Header),", New: ",",
		Package: "gateway/credentials", Tests: []string{"TestSessions_whereACookieMayBe"},
	},
	{
		Name: "revoked-session-goes-on", Breaks: "security.md", File: "gateway/session/keeper.go",
		What: "what was said of a session is believed for as long as what was said of a token",
		Old:  "remember = 400 * time.Millisecond", New: "remember = 10 * time.Second",
		Package: "gateway/credentials", Tests: []string{"TestSessions_endWithinASecond"},
	},
	{
		Name: "session-makes-a-session", Breaks: "security.md", File: "gateway/credentials/sessions.go",
		What: "a session makes another one, and so never ends",
		Old:  "\tif x.Caller.Session != nil {\n\t\treturn needsToken\n\t}\n\tctx,", New: "\tctx,",
		Package: "gateway/credentials", Tests: []string{"TestAttacks_cookies"},
	},
	{
		Name: "id-token-of-another-request", Breaks: "security.md", File: "gateway/login/login.go",
		What: "an ID token for another request signs in",
		Old:  "case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(pending.Nonce)) != 1:", New: "case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(claims.Nonce)) != 1:",
		Package: "gateway/credentials", Tests: []string{"TestSignIn_refuses"},
	},
	{
		Name: "sign-in-of-another-browser", Breaks: "security.md", File: "gateway/login/login.go",
		What: "an answer of the issuer counts in a browser that did not ask",
		Old:  "subtle.ConstantTimeCompare([]byte(pending.State), []byte(answer.Get(\"state\"))) != 1 || ", New: "",
		Package: "gateway/credentials", Tests: []string{"TestSignIn_refuses"},
	},
}
