// Package chaos attacks Mind and checks its promises. Its tests run the real binary: real processes, real signals, a
// real disk, real partitions. Folders: procs runs a cluster and calls it as a user would, netns runs one in network
// namespaces, workload has the programs of the jobs and the evidence that they leave, scenario has the attacks and
// their results, testbed makes the cluster of each attack, attack is `make chaos`, vm runs a virtual machine whose
// power can be cut, which is `make powercut`, yardstick and bench are `make bench`. The command line has the same
// scenarios as `mind chaos`.
package chaos
