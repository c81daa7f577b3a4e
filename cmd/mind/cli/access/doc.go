// Package access holds the commands about who may do what, and who did: tokens, the audit log, certificates, and the contexts that
// say which cluster is meant.
//
// Tokens and keys are printed once, when they are made, and written to files that others cannot read; no list shows them.
package access

import "github.com/spf13/cobra"

// Commands are the commands of this package, without `mind context`.
func Commands() []*cobra.Command {
	return []*cobra.Command{newToken(), newAudit(), newTLS()}
}
