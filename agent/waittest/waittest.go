// Package waittest runs tests that mostly wait in parallel.
package waittest

import (
	"flag"
	"runtime"
	"strconv"
)

// Together is called by a TestMain whose parallel tests wait for leases and drivers, and use no processor meanwhile. It
// makes all of them run at once, even on few processors. A -parallel flag on the command line takes precedence.
func Together() {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(max(20, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}
