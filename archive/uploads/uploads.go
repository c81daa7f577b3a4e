// Package uploads keeps the working directories that users send with their jobs, in the archive of checkpoints.
//
// Contract: a Tree lists the files of a directory. Its ID is a digest over all names and contents. A Keeper takes trees and
// packs of file contents from users (Offer, PutPack), and confirms that a tree is complete (Confirm). Load reads a complete
// tree, and Unpack writes its files into an empty directory.
//
// Guarantees: content is stored once for each tenant, and sent once: Offer says which pieces are missing, after an
// interruption too. A stored tree is complete. Any number of Keepers may work on one archive. The tenant is part of every
// key, so no tenant can use or find the content of another. Unpack writes nothing outside of its directory, and fails if a
// byte differs from what was sent.
//
// Not guaranteed: that a tree is kept forever. See Collect.
//
// Layout, below uploads/TENANT (a digest of the name):
//
//	trees/ID        a complete tree, and in which pack each piece is
//	packs/NAME      the contents of many pieces, one after the other
//	index/NAME      which pieces a pack has
package uploads

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mindcoordinator/mind/archive"
)

// Limits of uploads.
const (
	// MaxFiles limits the files of a tree.
	MaxFiles = 100_000
	// DefaultBytes is the default limit of the bytes of a tree.
	DefaultBytes = 256 << 20
	// PieceSize is the size of the pieces of a file, except the last one.
	PieceSize = 4 << 20
	// PackSize limits the content of a pack.
	PackSize = PieceSize
	// MaxPack limits a pack with its heading, and MaxTree a tree, as they are sent.
	MaxPack = 8 << 20
	MaxTree = 32 << 20
	// maxStored limits a tree as it is stored.
	maxStored = 2 * MaxTree
)

// ErrUnknown means that a tenant has no complete tree with an id.
var ErrUnknown = errors.New("no such upload")

// Invalid is the reason why a tree or a pack is refused: a sentence for the user.
type Invalid string

// Error implements error.
func (i Invalid) Error() string { return string(i) }

func invalidf(format string, args ...any) error { return Invalid(fmt.Sprintf(format, args...)) }

// scheme begins the id of a tree.
const scheme = "sha256:"

// ValidID reports whether a text has the form of an id of a tree: sha256: and 64 hexadecimal digits.
func ValidID(id string) bool {
	sum, ok := strings.CutPrefix(id, scheme)
	return ok && validSum(sum)
}

func validSum(sum string) bool {
	if len(sum) != 2*sha256.Size {
		return false
	}
	for i := range len(sum) {
		if c := sum[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Sum returns the digest of a piece.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Folders of a tenant. retired has what Collect is about to remove.
const (
	top     = "uploads/"
	trees   = "/trees/"
	packs   = "/packs/"
	index   = "/index/"
	retired = "/retired"
)

// folder returns the key of a tenant's uploads. It has a digest, because the name of a tenant need not be valid in a key.
func folder(tenant string) string { return top + Sum([]byte("tenant\x00" + tenant))[:32] }

func treeKey(tenant, id string) string {
	return folder(tenant) + trees + strings.TrimPrefix(id, scheme)
}

func retiredKey(tenant, id string) string {
	return folder(tenant) + retired + trees + strings.TrimPrefix(id, scheme)
}

// PackKey returns the key of a pack.
func PackKey(tenant, name string) string { return folder(tenant) + packs + name }

func indexKey(tenant, name string) string { return folder(tenant) + index + name }

// missing reports whether an object does not exist.
func missing(err error) bool { return errors.Is(err, archive.ErrNotFound) }
