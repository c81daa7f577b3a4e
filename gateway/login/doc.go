// Package login lets users sign in at an OpenID Connect issuer, by the authorization code flow with PKCE.
//
// Guarantees. An answer of the issuer counts only in the browser that asked, within ten minutes: state, nonce and code verifier are in a
// cookie of that browser, and in nothing else. The code is exchanged by this gateway, at the endpoint that the issuer names, over
// https. The ID token is verified as every token of the issuer is, for this client and this nonce. After signing in, a browser is
// sent to pages of this gateway alone. Errors are codes, of which the page makes sentences; nothing of the issuer's text is passed on.
//
// Not guaranteed. That a user is still one at the issuer while the session lasts.
package login
