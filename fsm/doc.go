// Package fsm is the replicated state of Mind, put together: it names the domains, and what readers are given of them.
//
// The kernel applies log entries and knows no domain (package kernel). The domains are jobs with all that belongs to them
// (package work), coordinators (coordinators), API tokens and the audit log (access), and launchers (catalog). Ids are in
// package ident, events in package event.
//
// Contract. A [Machine] is driven by one goroutine (Apply, StoreConfiguration, Restore); anybody may call View and
// Snapshot at any time. Every log entry is applied whole, and the resulting [View] is published once. kernel has the
// guarantees. Adding a domain is a package, and one line in this one.
package fsm
