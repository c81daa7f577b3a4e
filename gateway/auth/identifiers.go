package auth

// maxIdentifier bounds the name of a tenant or a user, as OpenID Connect does for a subject.
const maxIdentifier = 255

// IdentifierRule is what Identifier asks for, in words.
const IdentifierRule = "must be 1 to 255 wire.Printable ASCII characters"

// Identifier says whether a tenant or user can be called so. Coordinators are told who is calling in the metadata of the
// call, which carries nothing else.
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
