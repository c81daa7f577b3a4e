// Package access holds the commands for access control: API tokens, sessions, the audit log, certificates, and the contexts that
// select a cluster.
//
// Tokens and keys are printed once, when they are created, and written to files that only their owner can read. No list
// shows them.
package access

import "github.com/spf13/cobra"

// Commands returns the commands of this package except `mind context`.
func Commands() []*cobra.Command {
	return []*cobra.Command{newToken(), newSession(), newAudit(), newTLS(), newConsole()}
}
