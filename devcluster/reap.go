package devcluster

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mindcoordinator/mind/devcluster/proc"
)

// reaper makes this process the parent of orphans: the shim of a task whose agent was killed becomes its child and is
// reaped here. Otherwise its parent would be process 1, which in a container may never reap it.
type reaper struct {
	mine  func(pid int) bool
	stop  chan struct{}
	ended chan struct{}
}

// reapPause limits how often orphans are reaped: hundreds of tasks may end per second, and each search reads /proc.
const reapPause = 250 * time.Millisecond

// newReaper returns a reaper that leaves alone children for which mine is true, and processes of this session, because
// others wait for them. A task always has another session.
func newReaper(mine func(pid int) bool) *reaper {
	r := &reaper{mine: mine, stop: make(chan struct{}), ended: make(chan struct{})}
	// If the kernel has no subreapers, orphans go to process 1 as usual.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	go r.run()
	return r
}

func (r *reaper) run() {
	defer close(r.ended)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	for {
		select {
		case <-died:
		case <-r.stop:
			r.bury()
			return
		}
		select {
		case <-time.After(reapPause):
		case <-r.stop:
		}
		r.bury()
	}
}

func (r *reaper) bury() {
	session, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for _, p := range proc.All() {
		if p.Zombie && p.Parent == ownPid && p.Session != session && !r.mine(p.Pid) {
			_, _ = unix.Wait4(p.Pid, nil, unix.WNOHANG, nil)
		}
	}
}

func (r *reaper) close() {
	close(r.stop)
	<-r.ended
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
}

func (c *Cluster) isComponent(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.components {
		if p.pid == pid {
			return true
		}
	}
	return false
}
