package gateway

// maxIdentifier bounds the name of a tenant or a user, as OpenID Connect does for a subject.
const maxIdentifier = 255

const identifierRule = "must be 1 to 255 wire.Printable ASCII characters"

// identifier says whether a tenant or user can be called so. Coordinators are told who is calling in the metadata of the
// call, which carries nothing else.
func identifier(s string) bool {
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
