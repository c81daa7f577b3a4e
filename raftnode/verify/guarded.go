package verify

import (
	"fmt"
	"runtime/debug"
)

// Guarded runs f. What damaged data makes it panic or fault on becomes an error.
func Guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}
