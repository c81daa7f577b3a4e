package replica

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm"
)

// HashText formats a state hash for other replicas: the format of the hashed data, and the hash.
func HashText(hash uint64) string { return fmt.Sprintf("%s-%016x", fsm.HashFormat(), hash) }
