package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mindcoordinator/mind/chaos/vm"
)

// Options configure a test.
type Options struct {
	Kit *vm.Kit
	// Dir is the folder for all files: programs, disks, consoles, evidence.
	Dir string
	// Coordinators is 1, 3 or 5; default 1. Agents default to 2.
	Coordinators, Agents int
	// LogStore is the log store of the coordinators: wal, boltdb, or moving, for one of them at each start. Empty: the
	// coordinators choose, which results in wal.
	LogStore string
	// Changes are made to the sources of mind for this test.
	Changes []Change
	// Log logs the course of the test.
	Log func(format string, args ...any)
}

// Bed is the test bed of power cuts: the disks, which outlive every machine, and the files from which machines are
// started.
type Bed struct {
	Options
	initramfs string
	disks     []mounted
}

// mounted is a disk with its mount point in the machine. Each member of the cluster has its own disk, as on separate
// machines: a sync of one member does not make the unsynced data of another one durable.
type mounted struct {
	name string
	disk *vm.Disk
	// at is the folder in the machine; linked: it is a link to a folder of the disk. mind dev would take an existing
	// folder for the rest of an earlier cluster, but not a link.
	at     string
	linked bool
}

// Folders in the machine.
const (
	dataDir   = "/data/mind"
	sharedDir = "/shared"
	// evidenceDir is in memory, and has the evidence of the processes of one start.
	evidenceDir = "/run/evidence"
	devLog      = "/run/dev.log"
	// linkedDir is the folder of a disk to which a member's folder is a link.
	linkedDir = "data"
)

// diskMB is the size of each disk, whose file takes only the space that was written.
const diskMB = 512

// NewBed builds the programs, the initial file system and the disks.
func NewBed(ctx context.Context, o Options) (*Bed, error) {
	if o.Coordinators == 0 {
		o.Coordinators = 1
	}
	if o.Agents == 0 {
		o.Agents = 2
	}
	change, ok := logStores[o.LogStore]
	if !ok {
		return nil, fmt.Errorf("there is no log store %q: wal, boltdb or moving", o.LogStore)
	}
	o.Changes = slices.Concat(change, o.Changes)
	b := &Bed{Options: o, initramfs: filepath.Join(o.Dir, "initramfs")}
	programs := map[string]string{"init": filepath.Join(o.Dir, "init"), "mind": filepath.Join(o.Dir, "mind")}
	if err := vm.Build(ctx, vm.InitPackage, programs["init"]); err != nil {
		return nil, err
	}
	if err := buildMind(ctx, o.Dir, programs["mind"], o.Changes); err != nil {
		return nil, err
	}
	err := o.Kit.WriteInitramfs(b.initramfs, vm.Files{Init: programs["init"], Programs: map[string]string{"mind": programs["mind"]}})
	if err != nil {
		return nil, err
	}
	b.disks = []mounted{{name: "control", at: "/data"}, {name: "shared", at: sharedDir}}
	for i := range o.Coordinators {
		name := fmt.Sprintf("c%d", i+1)
		b.disks = append(b.disks, mounted{name: name, at: filepath.Join(dataDir, "coordinators", name), linked: true})
	}
	for i := range o.Agents {
		name := fmt.Sprintf("n%d", i+1)
		b.disks = append(b.disks, mounted{name: name, at: filepath.Join(dataDir, "agents", name), linked: true})
	}
	for i := range b.disks {
		d := &b.disks[i]
		if d.disk, err = o.Kit.NewDisk(ctx, filepath.Join(o.Dir, d.name+".disk"), diskMB); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Boot starts a machine with the disks, and mounts them with options of ext4. It does not start Mind.
func (b *Bed) Boot(ctx context.Context, options string) (*vm.Machine, error) {
	c := vm.Config{Kit: b.Kit, Initramfs: b.initramfs, Console: filepath.Join(b.Dir, "console"), Forward: []int{gatewayPort}}
	for _, d := range b.disks {
		c.Disks = append(c.Disks, d.disk)
	}
	m, err := c.Boot(ctx)
	if err != nil {
		return nil, err
	}
	// All commands are run in one call, because the start of a process takes long in the machine.
	var lines strings.Builder
	for i, d := range b.disks {
		device, at := "/dev/vd"+string(rune('a'+i)), d.at
		if d.linked {
			at = "/disks/" + d.name
		}
		fmt.Fprintf(&lines, "mkdir -p %[1]s; mount -t ext4 -o %[2]s %[3]s %[1]s\n", at, cmp.Or(options, "defaults"), device)
		if d.linked {
			fmt.Fprintf(&lines, "mkdir -p %[1]s/%[2]s %[3]s; ln -sfn %[1]s/%[2]s %[4]s\n", at, linkedDir, filepath.Dir(d.at), d.at)
		}
	}
	for _, n := range b.names("n") {
		fmt.Fprintf(&lines, "ln -sf %s %s/agents/%s/simulate-gpu-faults.json\n", faultsFile(n), dataDir, n)
	}
	lines.WriteString("mkdir -p " + evidenceDir)
	if _, err = m.Shell(ctx, lines.String()); err != nil {
		return nil, errors.Join(fmt.Errorf("mounting the disks: %w", err), m.Cut())
	}
	return m, nil
}

// faultsFile returns the path of the file with the faults of a node's simulated GPUs. It is in memory: after a cut no
// GPU is faulty any more, and only the agent's record keeps GPUs quarantined.
func faultsFile(node string) string { return "/run/gpu-faults-" + node + ".json" }

// Dumped has the contents of the disks while no machine runs, in the state that the next start will find.
type Dumped struct{ dir string }

// Dump reads all disks into a folder, which it empties first. A damaged file system is an error, because a power cut
// must not cause that.
func (b *Bed) Dump(ctx context.Context) (*Dumped, error) {
	d := &Dumped{dir: filepath.Join(b.Dir, "dump")}
	if err := os.RemoveAll(d.dir); err != nil {
		return nil, err
	}
	for _, disk := range b.disks {
		look, err := disk.disk.Look(ctx, b.Dir)
		if err != nil {
			return nil, fmt.Errorf("disk %s: %w", disk.name, err)
		}
		err = look.Dump(ctx, "/", filepath.Join(d.dir, disk.name))
		if err := errors.Join(err, look.Remove()); err != nil {
			return nil, fmt.Errorf("disk %s: %w", disk.name, err)
		}
		if look.Damage != "" {
			return nil, fmt.Errorf("the file system of disk %s is damaged, which is no fault of Mind: %s", disk.name, look.Damage)
		}
	}
	return d, nil
}

// member returns the data folder of a coordinator or an agent.
func (d *Dumped) member(name string) string { return filepath.Join(d.dir, name, linkedDir) }

// control returns the data directory of mind dev, without its members.
func (d *Dumped) control() string {
	return filepath.Join(d.dir, "control", strings.TrimPrefix(dataDir, "/data/"))
}

// shared returns the place of a path of the shared disk.
func (d *Dumped) shared(path string) string {
	return filepath.Join(d.dir, "shared", strings.TrimPrefix(path, sharedDir))
}

// names returns the names of the members of a kind: c or n.
func (b *Bed) names(kind string) (names []string) {
	for _, d := range b.disks {
		if d.linked && strings.HasPrefix(d.name, kind) {
			names = append(names, d.name)
		}
	}
	return names
}
