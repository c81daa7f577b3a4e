//go:build race

package runner

import "os"

// A program that was built with the race detector sleeps for a second before it ends, unless it is told otherwise: each
// task of a test would cost one. What else the detector was told holds for shims, too.
func init() {
	shimEnv = append(shimEnv, "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
}
