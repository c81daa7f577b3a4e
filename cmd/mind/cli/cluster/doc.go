// Package cluster holds the commands for coordinators, nodes and their data, queues, quotas and events, and `mind top`.
//
// It shows what the gateway returns and keeps no state. `drain --wait` reports progress and is safe to interrupt. `node
// forget` asks the user to type the node's name, and refuses if it cannot ask.
package cluster

import "github.com/spf13/cobra"

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newNodes(), newDrain(), newEnable(), newNode(), newQueue(), newQueues(), newQuota(), newMaintenance(), newReserve(), newReservations(), newCoordinators(), newFailovers(), newTop(), newEvents(), newData(),
	}
}
