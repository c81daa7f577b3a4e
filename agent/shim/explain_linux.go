package shim

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// cudaOOM has the messages of CUDA, PyTorch and JAX when a GPU's memory is full.
var cudaOOM = []string{
	"CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "CUDA_ERROR_OUT_OF_MEMORY",
	"CUDA error: out of memory", "RESOURCE_EXHAUSTED: Out of memory",
}

// explain adds to the exit why the command failed, as far as that is known.
func (s *shim) explain() {
	if s.exit.Code == 0 || s.exit.Failure == FailureNodeLost {
		return
	}
	if s.group.oomKills() > 0 || (s.exit.Signal == int(syscall.SIGKILL) && !s.plan.termed && kernelKilled(s.exit)) {
		s.exit.Failure = FailureOOM
		s.exit.Message = s.outOfMemory()
		return
	}
	tail := s.output.lastErrors()
	for _, text := range cudaOOM {
		if at := bytes.Index(tail, []byte(text)); at >= 0 && !s.exit.Stopped {
			s.exit.Failure = FailureOOM
			s.exit.Message = lineAround(tail, at)
			return
		}
	}
	if s.exit.Signal != 0 {
		s.exit.Message = "killed by signal " + strconv.Itoa(s.exit.Signal) + " (" + syscall.Signal(s.exit.Signal).String() + ")"
	} else {
		s.exit.Message = "exited with code " + strconv.Itoa(s.exit.Code)
	}
	if s.group.refusedForks() > 0 {
		s.exit.Message += "; it had as many processes and threads as a job may have (" + strconv.FormatInt(s.group.value("pids.max"), 10) + ")"
	}
	if last := lastLine(tail); last != "" {
		s.exit.Message += "; last line of stderr: " + clipped(last)
	}
}

// outOfMemory says why the kernel killed the task, and how to get more.
func (s *shim) outOfMemory() string {
	text := "killed by the kernel: out of memory on node " + s.spec.Node
	limit, peak := s.group.value("memory.max"), s.group.value("memory.peak")
	if limit == 0 {
		return text
	}
	text += ": it may use " + mebibytes(limit)
	if peak > 0 {
		text += ", and used up to " + mebibytes(peak)
	}
	return text + "; ask for more with --memory (memory_mb)"
}

func mebibytes(n int64) string { return strconv.FormatInt((n+1<<19)>>20, 10) + " MiB" }

// lastErrors returns the end of stderr, after it was read completely.
func (o *output) lastErrors() []byte {
	select {
	case <-o.done:
		return o.tail
	default:
		return nil
	}
}

func lineAround(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := len(text)
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	return clipped(string(bytes.ToValidUTF8(bytes.TrimSpace(text[start:end]), []byte("\uFFFD"))))
}

// clipped truncates a long line.
func clipped(line string) string {
	const longest = 300
	if len(line) > longest {
		line = string(bytes.ToValidUTF8([]byte(line[:longest]), nil))
	}
	return line
}

// kernelKilled reports whether the kernel's log says that its OOM killer has killed the process. That needs permission
// to read the log, and the host's process ids; without them the result is false.
func kernelKilled(exit Exit) bool {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return false
	}
	now, err := strconv.ParseFloat(string(bytes.Fields(uptime)[0]), 64)
	if err != nil {
		return false
	}
	// Process ids are reused: messages from before the command's start are about another process.
	since := int64(now*1e6) - (time.Now().UnixNano()-exit.Started)/1000 - 1e6
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	wanted := []byte("Killed process " + strconv.Itoa(exit.Pid) + " ")
	buf := make([]byte, 8192)
	for range 100_000 {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EPIPE || err == syscall.EINTR {
			continue // old records were overwritten meanwhile: the next read continues with later ones
		}
		if err != nil || n <= 0 {
			return false
		}
		if bytes.Contains(buf[:n], wanted) && bytes.Contains(buf[:n], []byte("ut of memory")) && saidAt(buf[:n]) >= since {
			return true
		}
	}
	return false
}

// saidAt returns the time of a record of the kernel's log ("priority,number,microseconds since boot,flags;text"), or 0.
func saidAt(record []byte) int64 {
	fields := bytes.SplitN(record, []byte{','}, 4)
	if len(fields) < 4 {
		return 0
	}
	at, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return at
}
