//go:build race

package runner

import "os"

// A program built with the race detector sleeps for a second before it ends, unless configured otherwise: every task of a
// test would take a second. Other settings of the detector also apply to shims.
func init() {
	shimEnv = append(shimEnv, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
}
