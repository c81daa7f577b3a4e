// Package conformance holds a running gateway to its contract, from outside: it knows nothing of Mind but what
// docs/use/rest.md says, and what the gateway serves as /openapi.json.
//
// Run sends, to every endpoint, what it should take, what each role may and may not, and a long list of what it must
// refuse, and checks status codes, envelopes, error codes, headers and the shape of answers. Its own table of endpoints is
// written down by hand, so that a route that disappears, appears, or changes its permission is noticed. Fuzz draws
// requests from the OpenAPI document, breaks them, and requires that nothing but a documented answer comes back.
//
// Both need a token with every permission and mind:operator, because they make tenants, tokens and nodes busy of their own;
// they leave the jobs, queues and tokens of others alone, and stop what they started.
package conformance
