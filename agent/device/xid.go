package device

import "fmt"

// Xid is one of the errors that the driver numbers.
type Xid struct {
	Code int
	// Text is the meaning of the error.
	Text string
	// Critical: the GPU needs a reset, a restart of the machine or a repair before it can be trusted again.
	Critical bool
}

// xids are the errors that occur in practice. The source is NVIDIA's Xid catalog
// (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): an error is critical if the immediate action there is
// RESET_GPU, RESTART_BM, CHECK_MECHANICALS or WORKFLOW_XID_48; and 74, because the catalog says that a reset is needed.
// The catalog says that 171 and 172 give details of a 48. Exceptions, where the catalog is not followed:
//
//   - 109 (RESET_GPU) is not critical, as in NVIDIA's k8s-device-plugin, which lists it as an error of the application: a
//     program can cause it, and a job that is retried would take one GPU after another out of service.
//   - 155 and 156 (RESET_GPU) are not critical: the first is logged for intended changes of links, and the cause of the
//     second is also reported by the driver as rows that wait to be remapped.
//   - 144 to 150 depend on subcodes, which NVML does not pass on. The fatal ones come with a 48 or a changed recovery
//     action, which the agent sees.
//
// An error that is not listed is not critical: it is logged and counted.
var xids = []Xid{
	{8, "GPU stopped processing", false},
	{13, "graphics engine exception", false},
	{31, "GPU memory page fault", false},
	{32, "invalid or corrupted push buffer stream", false},
	{43, "GPU stopped processing, a channel was reset", false},
	{45, "preemptive cleanup after an earlier error", false},
	{46, "GPU stopped processing, engine timeout", true},
	{48, "double bit ECC error", true},
	{54, "auxiliary power is not connected to the GPU board", true},
	{62, "internal micro-controller halt", true},
	{63, "memory remapping event", false},
	{64, "memory remapping failure", true},
	{68, "video processor exception", false},
	{69, "graphics engine class error", false},
	{74, "NVLink error", true},
	{79, "GPU has fallen off the bus", true},
	{92, "high single-bit ECC error rate", false},
	{94, "contained memory error", false},
	{95, "uncontained memory error", true},
	{109, "context switch timeout", false},
	{110, "security fault", true},
	{119, "GSP RPC timeout", true},
	{120, "GSP error", true},
	{136, "NVLink training failed", true},
	{137, "NVLink privilege error", false},
	{140, "unrecovered ECC error", true},
	{143, "GPU initialisation error", true},
	{154, "recovery action changed", false},
	{158, "GPU fatal timeout", true},
	{171, "uncorrectable DRAM error", true},
	{172, "uncorrectable SRAM error", true},
}

// XidOf returns the entry of an error.
func XidOf(code int) Xid {
	for _, x := range xids {
		if x.Code == code {
			return x
		}
	}
	return Xid{Code: code, Text: "see NVIDIA's Xid catalog"}
}

func (x Xid) String() string { return fmt.Sprintf("Xid %d: %s", x.Code, x.Text) }
