// Package power cuts the power of a machine in which a cluster works, and compares the state afterwards with what was
// acknowledged before. docs/operate/powercut.md explains that.
//
// Contract: NewBed builds the programs of the machine, optionally with changes to the sources of mind, and makes the
// disks. Bed.Run starts the machine, lets clients work, cuts the power at a moment that the seed determines, checks the
// disks, and begins again; after the last start it waits for the end of all jobs, and shuts the machine down. The
// Result has the broken promises and the figures.
//
// Guarantees: clients never forget an answer (package ledger), and every answer is compared with what the clients knew
// at the time of the request. A broken promise is a fault of Mind, of the file system or of the kernel: a machine that
// is too slow is waited for, or is an error. Nothing runs any more when Run has returned.
//
// Not guaranteed: the same run for the same seed. The seed determines the moments, the options of the file systems and
// the calls of clients; how many calls are made until the cut depends on the machine.
package power
