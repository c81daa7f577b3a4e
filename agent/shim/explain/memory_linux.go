package explain

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

// FullGPU returns the line of the end of stderr that says that the memory of a GPU is full; empty: none does.
func FullGPU(tail []byte) string {
	for _, text := range cudaOOM {
		if at := bytes.Index(tail, []byte(text)); at >= 0 {
			return lineAround(tail, at)
		}
	}
	return ""
}

func lineAround(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	end := len(text)
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	return Clipped(string(bytes.ToValidUTF8(bytes.TrimSpace(text[start:end]), []byte("\uFFFD"))))
}

// Clipped truncates a long line.
func Clipped(line string) string {
	const longest = 300
	if len(line) > longest {
		line = string(bytes.ToValidUTF8([]byte(line[:longest]), nil))
	}
	return line
}

// KernelKilled reports whether the kernel's log says that its OOM killer has killed the process, which was
// started at a time in unix nanoseconds. That needs permission
// to read the log, and the host's process ids; without them the result is false.
func KernelKilled(pid int, started int64) bool {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return false
	}
	now, err := strconv.ParseFloat(string(bytes.Fields(uptime)[0]), 64)
	if err != nil {
		return false
	}
	// Process ids are reused: messages from before the command's start are about another process.
	since := int64(now*1e6) - (time.Now().UnixNano()-started)/1000 - 1e6
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	wanted := []byte("Killed process " + strconv.Itoa(pid) + " ")
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
