// Package cluster holds the commands about what jobs run on: nodes and their data, queues, quotas, events, and `mind top`.
//
// It shows the state as the gateway tells it and keeps none. `drain --wait` tells how far the drain is and is safe to interrupt;
// `node forget` asks for the name of the node, and refuses to guess when nobody can be asked.
package cluster

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newNodes(), newDrain(), newEnable(), newNode(), newQueue(), newQueues(), newQuota(), newTop(), newEvents(), newData(),
	}
}
