package replica

import (
	"fmt"

	"github.com/mindcoordinator/mind/fsm"
)

// HashText is a state hash as replicas tell it: what it is taken of, and the hash.
func HashText(hash uint64) string { return fmt.Sprintf("%s-%016x", fsm.HashFormat(), hash) }
