// Package chaos attacks Mind and checks what it promises. Its tests run the real binary: real processes, real signals, a
// real disk, real partitions. Folders: procs runs a cluster and speaks to it as a user would, netns runs one in network
// namespaces, workload is what the jobs run and the evidence that they leave, scenario holds the attacks and their results,
// testbed gives each its cluster, attack is `make chaos`, vm runs a virtual machine whose power can be cut, which is `make
// powercut`, yardstick and bench are `make bench`. The command line has the same scenarios as `mind chaos`.
package chaos
