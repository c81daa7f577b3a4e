// Package figures counts what queues have, and what tenants have in them: jobs by state, how many of them are held back, and the
// GPUs that their leases hold.
//
// All of it is derived from the jobs and the leases. It is counted in place, and brought into what views read by Flush: so a
// change costs the same however many jobs there are, and an entry copies each figure that it changes once.
package figures
