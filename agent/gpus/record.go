package gpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/durable"
)

// RecordFile, in the data directory, keeps what must be known of the GPUs when the agent starts anew: which one has which
// index, while the driver may not answer, and which are set aside.
const RecordFile = "gpus.json"

// Why a GPU is set aside.
const (
	// causeFault: the GPU failed. Only an operator who enables the node gets it back, after it was verified.
	causeFault = "fault"
	// causeInUse: somebody uses it who should not. It comes back when it is empty.
	causeInUse = "in-use"
	// causeUnknown: whether it had failed is not known any more. It comes back as after a fault; what runs on it goes on.
	causeUnknown = "unknown"
)

// quarantine is one GPU set aside.
type quarantine struct {
	UUID   string `json:"uuid"`
	Cause  string `json:"cause"`
	Reason string `json:"reason"`
	// At is when, in unix nanoseconds.
	At int64 `json:"at"`
	// EnabledAt is that of the node at the time; Unplaced: no orders had said it yet.
	EnabledAt uint64 `json:"enabled_at"`
	Unplaced  bool   `json:"unplaced,omitempty"`
	// Verified tells what was found when an operator asked for the GPU back.
	Verified string `json:"verified,omitempty"`
}

func (q quarantine) text() string {
	if q.Verified == "" {
		return q.Reason
	}
	return q.Reason + " (verified when the node was enabled: " + q.Verified + ")"
}

// gpuRecord is the content of RecordFile.
type gpuRecord struct {
	Version int `json:"version"`
	// BootID and Spec are those under which Known was true.
	BootID      string            `json:"boot_id"`
	Spec        string            `json:"spec"`
	EnabledAt   uint64            `json:"enabled_at"`
	Known       []json.RawMessage `json:"gpus"`
	Quarantined []quarantine      `json:"quarantined,omitempty"`
	// Doubt is why nobody knows which GPUs had failed, until the driver lists them and all are set aside for it.
	Doubt string `json:"doubt,omitempty"`
}

const gpuRecordVersion = 1

// damagedSuffix is added to the name of a record that cannot be read, so that somebody may look at it.
const damagedSuffix = ".damaged"

// readGPUs returns false where there is no record. A GPU that failed must not come back because the record was damaged: then it
// is a record of doubt.
func readGPUs(dir string) (record gpuRecord, known []*v1.Gpu, ok bool, err error) {
	name := filepath.Join(dir, RecordFile)
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return record, nil, false, nil
	case err != nil:
		return record, nil, false, fmt.Errorf("read what is known of the GPUs: %w", err)
	}
	if err := json.Unmarshal(data, &record); err != nil {
		// Copied, not moved: should the agent end before it has written another record, the next one finds this one.
		if err := durable.WriteFile(name+damagedSuffix, data, 0o600); err != nil {
			return record, nil, false, fmt.Errorf("keep a copy of a damaged file: %w", err)
		}
		return gpuRecord{Doubt: name + " was damaged, so it is not known which GPUs had failed; `mind enable` has them verified"}, nil, true, nil
	}
	if record.Version > gpuRecordVersion {
		return record, nil, false, fmt.Errorf("%s has version %d, and this agent reads up to %d: run the newer agent", name, record.Version, gpuRecordVersion)
	}
	for _, text := range record.Known {
		gpu := &v1.Gpu{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, gpu); err != nil {
			return record, nil, false, fmt.Errorf("decode %s: %w", name, err)
		}
		known = append(known, gpu)
	}
	return record, known, true, nil
}

func writeGPUs(dir string, record gpuRecord, known []*v1.Gpu) error {
	record.Version = gpuRecordVersion
	for _, gpu := range known {
		text, err := protojson.Marshal(gpu)
		if err != nil {
			return fmt.Errorf("encode GPU: %w", err)
		}
		record.Known = append(record.Known, text)
	}
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode GPUs: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, RecordFile), data, 0o600); err != nil {
		return fmt.Errorf("write what is known of the GPUs: %w", err)
	}
	return nil
}
