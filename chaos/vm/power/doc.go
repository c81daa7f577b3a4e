// Package power cuts the power of a machine in which a cluster works, and holds the state afterwards against what was
// acknowledged before. docs/operate/powercut.md says what that means.
//
// Contract: NewBed builds the programs of the machine, with changes to the sources of mind if they are asked for, and makes
// the disks. Bed.Run starts the machine, lets clients work, cuts the power at a moment that the seed decides, looks at the
// disks, and begins again; the last start ends all jobs and the machine in order. The Result has the broken promises and
// the figures.
//
// Guarantees: clients never forget what they were told (package ledger), and every answer is held against what was known when it was
// asked for. What is called broken is a fault of Mind, of the file system or of the kernel: a machine that is too slow is
// waited for, or is an error. Nothing runs any more when Run has returned.
//
// Not guaranteed: the same run for the same seed. It decides the moments, the options of the file systems and what clients
// do; how much they get done until the cut depends on the machine.
package power
