// Package conformance checks a running gateway against its contract, from outside: it relies only on docs/use/rest.md
// and on the document that the gateway serves as /openapi.json.
//
// Run sends valid requests to every endpoint, requests with each role, and a long list of invalid requests, and checks
// status codes, envelopes, error codes, headers and the shape of answers. Its own table of endpoints is written by hand, so
// that it notices routes that disappear, appear, or change their permission. Fuzz draws requests from the OpenAPI document,
// damages them, and requires documented answers.
//
// Both need a token with every permission and mind:operator, because they create tenants and tokens and use nodes. They
// do not change jobs, queues and tokens of others, and they stop the jobs and Cores that they
// started.
package conformance
