package auth

// maxIdentifier is the length limit for names of tenants and users. OpenID Connect has the same limit for subjects.
const maxIdentifier = 255

// IdentifierRule describes what Identifier accepts.
const IdentifierRule = "must be 1 to 255 printable ASCII characters"

// Identifier reports whether a string can be the name of a tenant or user. Names travel to the coordinators in gRPC
// metadata, which allows only printable ASCII.
func Identifier(s string) bool {
	if s == "" || len(s) > maxIdentifier {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
