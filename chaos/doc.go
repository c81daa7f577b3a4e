// Package chaos attacks Mind and checks what it promises. Its tests run the real binary: real processes, real signals, a
// real disk. Folders: procs runs a cluster and speaks to it as a user would, scenario holds the attacks, attack is
// `make chaos`, yardstick and bench are `make bench`.
package chaos
