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

// RecordFile, in the data directory, keeps the state of the GPUs for the next start of the agent: their indices, which
// the driver may not be able to list then, and their quarantines.
const RecordFile = "gpus.json"

// The reasons of a quarantine.
const (
	// causeFault: the GPU failed. It is released only after an operator has enabled the node and the GPU was verified.
	causeFault = "fault"
	// causeInUse: a foreign process uses it. It is released when it is empty.
	causeInUse = "in-use"
	// causeUnknown: the record that says whether it had failed was lost. It is released as after a fault; running tasks
	// continue.
	causeUnknown = "unknown"
)

// quarantine is one quarantined GPU.
type quarantine struct {
	UUID   string `json:"uuid"`
	Cause  string `json:"cause"`
	Reason string `json:"reason"`
	// At is when the quarantine began, in Unix nanoseconds.
	At int64 `json:"at"`
	// EnabledAt is the node's enabled_at at that time; Unplaced: no orders had contained an enabled_at yet.
	EnabledAt uint64 `json:"enabled_at"`
	Unplaced  bool   `json:"unplaced,omitempty"`
	// Verified is the result of the last verification after an operator had enabled the node.
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
	// BootID and Spec identify the boot and configuration for which Known is valid.
	BootID      string            `json:"boot_id"`
	Spec        string            `json:"spec"`
	EnabledAt   uint64            `json:"enabled_at"`
	Known       []json.RawMessage `json:"gpus"`
	Quarantined []quarantine      `json:"quarantined,omitempty"`
	// Doubt is the reason why it is unknown which GPUs failed. It stays until the driver lists all GPUs, which are then
	// quarantined.
	Doubt string `json:"doubt,omitempty"`
}

const gpuRecordVersion = 1

// damagedSuffix is the suffix of a copy of a damaged record, kept for inspection.
const damagedSuffix = ".damaged"

// readGPUs returns false if there is no record. A failed GPU must not return to service because the record was damaged:
// the result then has a Doubt.
func readGPUs(dir string) (record gpuRecord, known []*v1.Gpu, ok bool, err error) {
	name := filepath.Join(dir, RecordFile)
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return record, nil, false, nil
	case err != nil:
		return record, nil, false, fmt.Errorf("read the record of the GPUs: %w", err)
	}
	if err := json.Unmarshal(data, &record); err != nil {
		// The file is copied, not moved: if the agent ends before it has written a new record, the next agent finds
		// this one.
		if err := durable.WriteFile(name+damagedSuffix, data, 0o600); err != nil {
			return record, nil, false, fmt.Errorf("keep a copy of a damaged file: %w", err)
		}
		return gpuRecord{Doubt: name + " was damaged, so it is unknown which GPUs had failed; `mind enable` verifies them"}, nil, true, nil
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
		return fmt.Errorf("write the record of the GPUs: %w", err)
	}
	return nil
}
