package verify

import (
	"fmt"
	"runtime/debug"
)

// Guarded runs f, and turns a panic or a memory fault because of damaged data into an error.
func Guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}
