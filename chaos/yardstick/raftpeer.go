// Package yardstick provides the yardsticks for Mind's figures: a bare hashicorp/raft cluster of three processes with
// an empty state machine, TCP transport, raft-boltdb and fsync on. Proposers run inside the leader (the upper limit of
// any system built on the library), or behind a bare net/http JSON server (the least that any REST interface in front
// of it costs).
package yardstick

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// commandBytes is the size of one proposed command.
const commandBytes = 256

type emptyFSM struct{}

func (emptyFSM) Apply(*raft.Log) any                 { return nil }
func (emptyFSM) Snapshot() (raft.FSMSnapshot, error) { return emptyFSM{}, nil }
func (emptyFSM) Restore(r io.ReadCloser) error       { return r.Close() }
func (emptyFSM) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (emptyFSM) Release()                            {}

// PeerMain runs one raft peer until it is killed: ID DIR RAFTADDR HTTPADDR PEER[,PEER...] with PEER = id=addr.
func PeerMain(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("yardstick peer: want ID DIR RAFTADDR HTTPADDR PEERS, got %q", args)
	}
	id, dir, raftAddr, httpAddr, peers := args[0], args[1], args[2], args[3], args[4]
	store, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	if err != nil {
		return err
	}
	quiet := hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 1, quiet)
	if err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp", raftAddr)
	if err != nil {
		return err
	}
	transport, err := raft.NewTCPTransportWithLogger(raftAddr, addr, 3, 10*time.Second, quiet)
	if err != nil {
		return err
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(id)
	cfg.Logger = quiet
	cfg.SnapshotThreshold = 1 << 40
	r, err := raft.NewRaft(cfg, emptyFSM{}, store, store, snaps, transport)
	if err != nil {
		return err
	}
	var servers []raft.Server
	for p := range strings.SplitSeq(peers, ",") {
		pid, paddr, _ := strings.Cut(p, "=")
		servers = append(servers, raft.Server{ID: raft.ServerID(pid), Address: raft.ServerAddress(paddr)})
	}
	if err := r.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil && err != raft.ErrCantBootstrap {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%t", r.State() == raft.Leader)
	})
	mux.HandleFunc("POST /apply", applyHandler(r))
	mux.HandleFunc("POST /bench", benchHandler(r))
	return http.ListenAndServe(httpAddr, mux) //nolint:gosec // loopback, killed by its parent
}

// applyHandler is a minimal submit API: it decodes JSON, applies, and answers.
func applyHandler(r *raft.Raft) http.HandlerFunc {
	type request struct {
		Name    string            `json:"name"`
		Labels  map[string]string `json:"labels"`
		Payload string            `json:"payload"`
	}
	return func(w http.ResponseWriter, req *http.Request) {
		var body request
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		cmd := make([]byte, commandBytes)
		copy(cmd, body.Payload)
		f := r.Apply(cmd, 10*time.Second)
		if err := f.Error(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]uint64{"index": f.Index()})
	}
}

// benchHandler proposes inside the leader, with the query ?proposers=N&seconds=S&pack=P. With pack > 1, up to P
// commands that wait at the same time share a log entry, with four entries in flight.
func benchHandler(r *raft.Raft) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		number := func(key string, fallback int) int {
			if n, err := strconv.Atoi(req.FormValue(key)); err == nil {
				return n
			}
			return fallback
		}
		propose := func() error { return r.Apply(make([]byte, commandBytes), 10*time.Second).Error() }
		stop := func() {}
		if pack := number("pack", 1); pack > 1 {
			propose, stop = packed(r, pack)
		}
		res := Drive(number("proposers", 1), time.Duration(number("seconds", 3))*time.Second, func(int) error { return propose() })
		stop()
		_ = json.NewEncoder(w).Encode(res)
	}
}

func packed(r *raft.Raft, pack int) (propose func() error, stop func()) {
	waiting := make(chan chan error, 4096)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for first := range waiting {
				batch := []chan error{first}
				for len(batch) < pack {
					select {
					case c, ok := <-waiting:
						if ok {
							batch = append(batch, c)
							continue
						}
					default:
					}
					break
				}
				err := r.Apply(make([]byte, commandBytes*len(batch)), 10*time.Second).Error()
				for _, c := range batch {
					c <- err
				}
			}
		})
	}
	return func() error {
			done := make(chan error, 1)
			waiting <- done
			return <-done
		}, func() {
			close(waiting)
			workers.Wait()
		}
}
