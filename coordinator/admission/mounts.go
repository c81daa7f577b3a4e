package admission

import (
	"maps"
	"path"
	"strings"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
)

// mountsLabel is the label of nodes whose agents let jobs mount files, with mountsValue: package agent/isolation. Agents that do not know
// mounts would leave them out.
const mountsLabel, mountsValue = "mind.io/mounts", "jobs"

// selectorOf returns the labels that the nodes of a job must have.
func selectorOf(req *v1.SubmitJobRequest) map[string]string {
	labels := req.GetResourceConfig().GetNodeSelector()
	if !asksForMounts(req) {
		return labels
	}
	all := map[string]string{}
	maps.Copy(all, labels)
	all[mountsLabel] = mountsValue
	return all
}

func asksForMounts(req *v1.SubmitJobRequest) bool {
	return len(req.GetCommandConfig().GetMounts())+len(req.GetTrainingConfig().GetMounts()) > 0
}

// maxMounts limits the mounts of a job: each is made for each of its tasks.
const maxMounts = 32

// checkMounts checks the form of mounts. Only a node knows whether it lets a job have them.
func checkMounts(f *call.Faults, field string, mounts []string) {
	if len(mounts) > maxMounts {
		f.Bad(field, "has %d elements; at most %d are allowed", len(mounts), maxMounts)
		return
	}
	targets := make(map[string]bool)
	for _, text := range mounts {
		parts := strings.Split(text, ":")
		switch {
		case len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw":
			f.Bad(field, "%.200q is not of the form SOURCE:TARGET, SOURCE:TARGET:ro or SOURCE:TARGET:rw", text)
		case !cleanPath(parts[0]) || !cleanPath(parts[1]):
			f.Bad(field, "%.200q: both paths are absolute, without . and .. in them", text)
		case parts[1] == "/" || parts[1] == "/proc" || strings.HasPrefix(parts[1], "/proc/"):
			f.Bad(field, "%.200q: nothing can be mounted at %s", text, parts[1])
		case targets[parts[1]]:
			f.Bad(field, "two mounts have the target %.200s", parts[1])
		default:
			targets[parts[1]] = true
		}
	}
}

func cleanPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && len(p) <= 4096 && !strings.ContainsAny(p, "\x00\n")
}
