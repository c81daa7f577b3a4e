// Package vm runs a virtual machine whose power can be cut: a Debian kernel under qemu's software emulation, with a
// special initial file system, raw disks, and an agent inside that runs commands for the host.
//
// Contract: FindKit returns the parts of a machine, or says what is missing and where to get it. Files and Build make
// the initial file system; NewDisk makes a disk with ext4; Config.Boot starts a machine and returns when its agent
// answers. Machine.Cut cuts the power: qemu is killed, and data that the kernel inside has not written to the disk is
// lost. Machine.PowerOff shuts the machine down. Disk.Look shows a disk in the state that the next start will find,
// without changing it.
//
// Guarantees: a machine ends with the process that started it, however that ends. Ports are on 127.0.0.1, and only free
// ones are used. The package needs no root and installs nothing: missing parts are fetched into a folder of the user's
// cache, through the package manager, which checks them.
//
// Not simulated: a disk that loses flushed data. Data that the kernel inside has written is kept by this machine's
// kernel, in any order of writes; the cut loses the memory of the machine inside. Hardware virtualisation is never
// used, so time inside passes slowly, and measurements there are no benchmarks.
package vm
