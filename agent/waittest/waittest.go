// Package waittest lets tests that mostly wait run beside each other.
package waittest

import (
	"flag"
	"runtime"
	"strconv"
)

// Together is called by a TestMain whose parallel tests wait for leases and drivers, and use no processor meanwhile: all of them
// run at once, on however few processors. What the command line says of it stands.
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
