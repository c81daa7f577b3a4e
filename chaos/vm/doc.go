// Package vm runs a virtual machine whose power can be cut: a Debian kernel under qemu's software emulation, with an initial
// file system of its own, raw disks, and an agent inside that runs commands for the host.
//
// Contract: FindKit says what of the machine is there, or what is missing and where to get it. Files and Build make the
// initial file system; NewDisk makes a disk with ext4; Config.Boot starts a machine and returns when its agent answers.
// Machine.Cut is the power cut: qemu is killed, and what the kernel inside had not written to the disk is gone.
// Machine.PowerOff ends it in order. Disk.Look reads a disk as the next start will find it, and changes nothing.
//
// Guarantees: a machine ends with the process that started it, however that ends. Ports are on 127.0.0.1, and are never
// taken from somebody else. Nothing needs root, and nothing is installed: what is not there is fetched into a folder of the
// user's cache, through the package manager, which checks it.
//
// Not guaranteed: a disk that loses what it was told to flush. What the kernel inside has written is kept by this
// machine's kernel, in whatever order; the cut takes away what was in the memory of the machine inside. Hardware
// virtualisation is never used, so time inside passes slowly; nothing measured there is a benchmark.
package vm
