//go:build !linux || !cgo

package nvml

import (
	"errors"

	"github.com/mindcoordinator/mind/agent/device"
)

// Open fails: this build has no cgo, which NVML needs.
func Open() (device.Inventory, error) {
	return nil, errors.New("built without NVML (it needs Linux and cgo)")
}
