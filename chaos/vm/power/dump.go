package power

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/shim"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/chaos/vm/power/ledger"
	"github.com/mindcoordinator/mind/chaos/vm/power/result"
	"github.com/mindcoordinator/mind/chaos/workload"
	"github.com/mindcoordinator/mind/coordinator/recovery"
)

// kept has numbers on the disk of an agent that must only grow.
type kept struct {
	epoch  uint64
	roster uint64
}

// dumpCheck compares the contents of the disks with what was known before the cut.
type dumpCheck struct {
	*Dumped
	result *result.Result
	// before has the numbers of the members that were in use before the cut.
	before map[string]kept
}

// checkControl reads the files of mind dev itself: the members and their secrets.
func (d dumpCheck) checkControl() {
	whole := func(name string, parse func([]byte) error) {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return // the file did not exist yet
		}
		if err == nil {
			err = parse(text)
		}
		if err != nil {
			d.result.Break(result.Torn, "%s (%d bytes): %v", d.relative(name), len(text), err)
		}
		d.result.Count("files", 1)
	}
	isJSON := func(text []byte) error { return json.Unmarshal(text, &map[string]any{}) }
	for _, name := range []string{"cluster.json", "dev.json"} {
		whole(filepath.Join(d.control(), name), isJSON)
	}
	configs, _ := filepath.Glob(filepath.Join(d.control(), "config", "*.yaml"))
	for _, name := range configs {
		whole(name, func(text []byte) error {
			config := map[string]any{}
			if err := yaml.Unmarshal(text, &config); err != nil || len(config) == 0 {
				return errors.Join(errors.New("it is no configuration"), err)
			}
			return nil
		})
	}
	certificates, _ := filepath.Glob(filepath.Join(d.control(), "pki", "*.pem"))
	for _, name := range certificates {
		whole(name, isPEM)
	}
}

// isPEM checks that a text is a complete certificate or key.
func isPEM(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("it is no certificate and no key")
	}
	if block.Type != "CERTIFICATE" {
		return nil
	}
	_, err := x509.ParseCertificate(block.Bytes)
	return err
}

// relative returns a path relative to the dump.
func (d dumpCheck) relative(name string) string {
	rel, err := filepath.Rel(d.dir, name)
	if err != nil {
		return name
	}
	return rel
}

// checkCoordinator reads the log and the snapshots of a coordinator.
func (d dumpCheck) checkCoordinator(ctx context.Context, name string) error {
	dir := d.member(name)
	if _, err := os.Stat(filepath.Join(dir, "raft")); errors.Is(err, fs.ErrNotExist) {
		return nil // the file did not exist yet
	}
	report, err := recovery.Verify(ctx, dir, "", 0)
	if err != nil {
		d.result.Break(result.Torn, "mind raft verify of %s: %v", name, err)
		return nil
	}
	for _, flaw := range report.Flaws {
		d.result.Break(result.Torn, "mind raft verify of %s: %s at index %d, term %d: %s", name, flaw.Where, flaw.Index, flaw.Term, flaw.Problem)
	}
	d.result.Count("entries", report.Log.Entries)
	d.result.Count("snapshots", len(report.Snapshots))
	return nil
}

// checkAgent reads the files of an agent.
func (d dumpCheck) checkAgent(name string) error {
	dir := d.member(name)
	k, err := readKept(func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, file)) })
	if err != nil {
		d.result.Break(result.Torn, "agent %s: %v", name, err)
	}
	before := d.before[name]
	if err == nil && k.epoch < before.epoch {
		d.result.Break(result.WentBack, "the epoch of agent %s is %d on its disk, and it was in session with %d", name, k.epoch, before.epoch)
	}
	if err == nil && k.roster < before.roster {
		d.result.Break(result.WentBack, "the roster of agent %s has version %d on its disk, and it had told the leader of %d", name, k.roster, before.roster)
	}
	d.result.Count("epochs", 1)
	d.result.Count("rosters", 1)
	gpus, err := os.ReadFile(filepath.Join(dir, "gpus.json"))
	if err == nil {
		err = json.Unmarshal(gpus, &map[string]any{})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.result.Break(result.Torn, "agent %s: gpus.json (%d bytes): %v", name, len(gpus), err)
	}
	exits, err := filepath.Glob(filepath.Join(dir, "tasks", "*", shim.ExitFile))
	if err != nil {
		return err
	}
	unsynced := 0
	for _, file := range exits {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &shim.Exit{})
		}
		if err != nil {
			unsynced++
		}
	}
	// An incomplete exit does not matter after a restart of the machine: its tasks are over then. The check of their
	// ends uses the coordinators' state, see Job.wrongEnd.
	d.result.Count("exits", len(exits)-unsynced)
	d.result.Count("exits_unsynced", unsynced)
	return nil
}

// readKept reads the epoch and the roster version of an agent. A missing one is 0.
func readKept(file func(string) ([]byte, error)) (k kept, err error) {
	text, err := file("epoch")
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return k, err
	case len(text) != 8:
		return k, fmt.Errorf("epoch has %d bytes of 8", len(text))
	default:
		k.epoch = binary.BigEndian.Uint64(text)
	}
	text, err = file("roster")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return k, err
	case len(text) < 4:
		return k, fmt.Errorf("roster has %d bytes", len(text))
	}
	body, sum := text[:len(text)-4], binary.BigEndian.Uint32(text[len(text)-4:])
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return k, fmt.Errorf("the checksum of roster (%d bytes) is wrong", len(text))
	}
	var roster v1.Roster
	if err := proto.Unmarshal(body, &roster); err != nil {
		return k, fmt.Errorf("roster: %w", err)
	}
	k.roster = roster.GetVersion()
	return k, nil
}

// checkCheckpoints reads every registered checkpoint.
func (d dumpCheck) checkCheckpoints(registered []ledger.Checkpoint) {
	for _, c := range registered {
		path := d.shared(c.Path)
		// The dump has the times of files in seconds, so the digest of the manifest cannot be compared.
		if err := workload.CheckCheckpoint(path, c.JobID, c.Attempt, c.Step, weightsBytes); err != nil {
			promise := result.Torn
			if errors.Is(err, fs.ErrNotExist) {
				promise = result.Missing
			}
			d.result.Break(promise, "checkpoint %s of %s (%s), which was registered: %v", c.ID, c.JobID, c.Path, err)
		}
	}
	d.result.Count("checkpoints_read", len(registered))
}
