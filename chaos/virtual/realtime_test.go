package virtual

import (
	"syscall"
	"time"
)

// now returns the real time, also inside a bubble.
func now() time.Time {
	var tv syscall.Timeval
	_ = syscall.Gettimeofday(&tv)
	return time.Unix(tv.Sec, int64(tv.Usec)*1000)
}
