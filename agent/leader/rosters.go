package leader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mindcoordinator/mind/agent/lease"
	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/durable"
)

// RosterFile holds the newest roster: the message and its CRC-32C. An incomplete file counts as no roster, which is safe:
// without a roster no task runs past its lease.
const RosterFile = "roster"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Rosters keeps the roster. The keeper and the renewals use the version on disk: an agent that starts again must not
// have an older roster than the leader believes.
type Rosters struct {
	dir, node string
	leases    *Leases
	log       *slog.Logger
	news      chan *v1.Roster // the newest one that is not on disk yet
	kept      chan struct{}   // has a token when the leader must learn that another version is on disk

	mu      sync.Mutex
	members []*v1.RosterMember // without this node
}

// NewRosters loads the roster from a data directory, and gives it to the leases.
func NewRosters(dir, node string, leases *Leases, log *slog.Logger) *Rosters {
	r := &Rosters{dir: dir, node: node, leases: leases, log: log, news: make(chan *v1.Roster, 1), kept: make(chan struct{}, 1)}
	roster, err := readRoster(filepath.Join(dir, RosterFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		log.Error("the roster on disk is not valid; the leader sends another", "error", err)
	default:
		r.use(roster)
	}
	return r
}

// take records a roster from the leader. It is called in the order in which they arrive, and does not wait for the
// disk.
func (r *Rosters) take(roster *v1.Roster) {
	for {
		select {
		case r.news <- roster:
			return
		default:
		}
		select {
		case <-r.news: // older
		default:
		}
	}
}

// Run writes rosters until the context ends.
func (r *Rosters) Run(ctx context.Context) {
	var unwritten *v1.Roster
	again := time.NewTimer(0)
	<-again.C
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case unwritten = <-r.news:
		case <-again.C:
		}
		if err := writeRoster(r.dir, unwritten); err != nil {
			r.log.Error("cannot write the roster", "error", err)
			again.Reset(time.Second)
			continue
		}
		r.use(unwritten)
		select {
		case r.kept <- struct{}{}:
		default:
		}
	}
}

// use activates a roster that is on disk.
func (r *Rosters) use(roster *v1.Roster) {
	members := make([]string, 0, len(roster.GetMembers()))
	others := make([]*v1.RosterMember, 0, len(roster.GetMembers()))
	for _, m := range roster.GetMembers() {
		members = append(members, m.GetNodeId())
		if m.GetNodeId() != r.node {
			others = append(others, m)
		}
	}
	r.mu.Lock()
	r.members = others
	r.mu.Unlock()
	r.leases.with(func(b *lease.Book, _ int64) { b.SetRoster(roster.GetVersion(), members) })
}

// others returns the members beside this node.
func (r *Rosters) others() []*v1.RosterMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members
}

func readRoster(name string) (*v1.Roster, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(data) < 4 {
		return nil, errors.New("roster file is cut off")
	}
	body := data[:len(data)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[len(body):]) {
		return nil, errors.New("roster file is damaged")
	}
	roster := &v1.Roster{}
	if err := proto.Unmarshal(body, roster); err != nil {
		return nil, fmt.Errorf("decode roster: %w", err)
	}
	return roster, nil
}

// writeRoster replaces the roster file.
func writeRoster(dir string, roster *v1.Roster) error {
	body, err := proto.Marshal(roster)
	if err != nil {
		return fmt.Errorf("encode roster: %w", err)
	}
	return durable.WriteFile(filepath.Join(dir, RosterFile), binary.BigEndian.AppendUint32(body, crc32.Checksum(body, castagnoli)), 0o600)
}
