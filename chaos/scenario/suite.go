package scenario

import (
	"time"

	"github.com/mindcoordinator/mind/chaos/scenario/users"
)

// Entry is an attack with the kind of cluster that it needs.
type Entry struct {
	Attack Attack
	// Namespaces: the cluster must be in network namespaces; otherwise it is a `mind dev`.
	Namespaces bool
	// Disk: one coordinator needs a small disk.
	Disk bool
	// Throttle: the attack slows down processes.
	Throttle bool
	// Restart: `mind dev` starts killed components again.
	Restart bool
	Agents  int
	GPUs    string
}

// Suite returns the attacks of `make chaos`: for some minutes, or, if long, all of them.
func Suite(long bool) []Entry {
	pick := func(short, all int) int {
		if long {
			return all
		}
		return short
	}
	load := Load{Steady: users.Steady{Jobs: 14, Replaceable: 6}, Clients: 4, Pause: 50 * time.Millisecond, Followers: 4}
	many := load
	// 200 jobs, each of which prints twice a second.
	many.Steady = users.Steady{Jobs: pick(40, 180), Replaceable: pick(10, 20), Every: 500 * time.Millisecond}
	light := load
	light.Clients, light.Pause = 2, 200*time.Millisecond
	away := light
	away.Steady = users.Steady{Jobs: 8, Short: 4, Replaceable: 6, Gangs: 1, LostAfter: 10 * time.Second}
	down := Away{For: time.Duration(pick(1, 600)) * time.Second}
	stopped := down
	stopped.Stop = true
	alone := light
	// A node must have the time to find out that it is alone, and to ask its peers, before it stops its tasks.
	alone.Steady = users.Steady{Jobs: 4, Replaceable: 6, LostAfter: 20 * time.Second}
	watched := light
	watched.Steady = users.Steady{Jobs: 2}
	printing := Printing{Lines: pick(100_000, 1_000_000), Watchers: 100, For: time.Duration(pick(30, 180)) * time.Second}
	forgotten := load
	forgotten.Steady = users.Steady{Jobs: 6, Replaceable: 4, Gangs: 3}
	flowing := light
	flowing.Steady = users.Steady{Jobs: 4}
	flows := users.Flows{Executions: pick(100, 1000), Cycles: pick(6, 18), Rest: time.Duration(pick(4, 80)) * time.Second}
	// A coordinator must lead after this time, and continue to lead. A starved cluster takes up to 11 s on a busy
	// machine.
	const settled, settledSlowly = 10 * time.Second, 15 * time.Second
	const silence = 45 * time.Second // more than twice the leases of the jobs
	return []Entry{
		{Attack: KillLeader(pick(20, 100), many), Agents: 4, GPUs: "64xH100"},
		{Attack: Executions(pick(5, 100), flows, flowing), Agents: 4, GPUs: "32xH100"},
		{Attack: KillAgent(pick(4, 20), load), Agents: 3, GPUs: "8xH100"},
		{Attack: Pause(pick(6, 30), 4*time.Second, load), Agents: 3, GPUs: "8xH100"},
		{Attack: AgentAway(down, away), Agents: 4, GPUs: "8xH100"},
		{Attack: AgentAway(stopped, away), Agents: 4, GPUs: "8xH100"},
		{Attack: Partition(pick(5, 25), 5*time.Second, load), Namespaces: true, Agents: 3, GPUs: "8xH100"},
		{Attack: NodeCutOff(away), Namespaces: true, Agents: 4, GPUs: "8xH100"},
		{Attack: NodesWithoutCoordinators(false, silence, alone), Namespaces: true, Agents: 3, GPUs: "8xH100"},
		{Attack: NodesWithoutCoordinators(true, silence, alone), Namespaces: true, Agents: 3, GPUs: "8xH100"},
		{Attack: DiskFull(pick(2, 6), light), Disk: true, Agents: 2, GPUs: "8xH100"},
		{Attack: Streams(pick(4, 16), printing, watched), Restart: true, Agents: 2, GPUs: "8xH100"},
		{Attack: Damage(pick(3, 6), light), Agents: 2, GPUs: "8xH100"},
		{Attack: LostQuorum(pick(1, 4), forgotten), Agents: 3, GPUs: "8xH100"},
		{Attack: Starved(pick(1, 5), time.Minute, settledSlowly, light), Throttle: true, Agents: 2, GPUs: "8xH100"},
		{Attack: Handshakes(pick(1, 5), 1000, 40*time.Second, settled, light), Agents: 2, GPUs: "8xH100"},
	}
}
