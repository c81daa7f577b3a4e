package raftnode

import (
	"fmt"
	"runtime/debug"
)

// guarded runs f. What damaged data makes it panic or fault on becomes an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}
