package devices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// simulated begins the UUIDs of GPUs that do not exist.
const simulated = "GPU-sim-"

// isGPU reports whether a name below /dev is that of a GPU, such as nvidia0.
func isGPU(name string) bool {
	_, err := strconv.ParseUint(strings.TrimPrefix(name, "nvidia"), 10, 16)
	return err == nil
}

// gpuNodes lists the devices that are GPUs.
func (f *Filter) gpuNodes() []string {
	all, _ := filepath.Glob(f.cfg.dev + "/nvidia[0-9]*")
	return all
}

// leased returns the rules of GPUs and slices.
func (f *Filter) leased(places []string) (rules []rule, err error) {
	if f.anyGPU || len(places) == 0 || len(f.gpuNodes()) == 0 {
		return nil, nil
	}
	var known map[string]int
	for _, place := range places {
		uuid, slice, _ := strings.Cut(place, "/")
		if strings.HasPrefix(uuid, simulated) {
			continue
		}
		if known == nil {
			if known, err = f.minors(); err != nil {
				return nil, err
			}
		}
		minor, ok := known[uuid]
		if !ok {
			return nil, fmt.Errorf("the driver does not say which device GPU %s is", uuid)
		}
		gpu := found(filepath.Join(f.cfg.dev, "nvidia"+strconv.Itoa(minor)))
		if len(gpu) == 0 {
			return nil, fmt.Errorf("%s/nvidia%d, the device of GPU %s, is not there", f.cfg.dev, minor, uuid)
		}
		rules = append(append(rules, gpu...), f.instances(minor, slice)...)
	}
	return rules, nil
}

// minors returns the number of the device of each GPU, by its UUID, as the driver says it.
func (f *Filter) minors() (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(f.cfg.proc, "driver/nvidia/gpus/*/information"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%s/driver/nvidia/gpus lists no GPUs", f.cfg.proc), err)
	}
	known := make(map[string]int)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("look for the devices of GPUs: %w", err)
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
			case "GPU UUID":
				uuid = value
			case "Device Minor":
				if n, err := strconv.Atoi(value); err == nil {
					minor = n
				}
			}
		}
		if uuid != "" && minor >= 0 {
			known[uuid] = minor
		}
	}
	return known, nil
}

// instances returns the rules of the MIG instances of a GPU: of those that give access, not of those that change instances. slice
// is GPU INSTANCE/COMPUTE INSTANCE; empty: all of them.
func (f *Filter) instances(minor int, slice string) (rules []rule) {
	mig := filepath.Join(f.cfg.proc, "driver/nvidia/capabilities", "gpu"+strconv.Itoa(minor), "mig")
	gi, ci, one := strings.Cut(slice, "/")
	if !one {
		gi, ci = "*", "*"
	}
	for _, pattern := range []string{"gi" + gi + "/access", "gi" + gi + "/ci" + ci + "/access"} {
		files, _ := filepath.Glob(filepath.Join(mig, pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it was removed meanwhile
			}
			for line := range strings.Lines(string(text)) {
				if number, ok := strings.CutPrefix(line, "DeviceFileMinor:"); ok {
					rules = append(rules, found(filepath.Join(f.cfg.dev, "nvidia-caps", "nvidia-cap"+strings.TrimSpace(number)))...)
				}
			}
		}
	}
	return rules
}
