// Package downloads sends checkpoints from the archive, as tar archives.
//
// Contract: Find checks whether a checkpoint can be sent, and takes one of the slots, of which a tenant has a quarter at
// most; Send sends it.
//
// Guarantees: the requested checkpoint is sent, and never another one in its place in the archive. An incomplete answer
// ends with a broken connection, so it cannot be mistaken for a complete one. A caller that reads nothing for two
// minutes is given up.
//
// Not guaranteed: that a download that broke off can be continued.
package downloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/archive/checkpoints"
)

const (
	// HeaderDigest is the header with the digest of a downloaded checkpoint, the value of its field content_digest.
	HeaderDigest = "X-Mind-Content-Digest"
	// Most limits how many checkpoints a gateway sends at a time.
	Most = 16
	// MostOfTenant limits how many of them are of one tenant, so that its slow readers leave room for the others.
	MostOfTenant = Most / 4
	// slowest is how long a caller may take to read some bytes of a checkpoint.
	slowest = 2 * time.Minute
)

// ErrBusy means that Most checkpoints are being sent, or MostOfTenant of the same tenant.
var ErrBusy = errors.New("too many downloads at a time")

// Unfit is the reason why a checkpoint cannot be downloaded, and what to do about it.
type Unfit string

// Error implements error.
func (u Unfit) Error() string { return string(u) }

// Archive configures the archive from which checkpoints are downloaded.
type Archive struct {
	// URL is the same as that of the agents; empty: no checkpoint can be downloaded.
	URL    string
	Access archive.Access
}

// Sender sends checkpoints. It is safe for concurrent use.
type Sender struct {
	store archive.Store // nil: there is none

	mu   sync.Mutex
	all  int
	busy map[string]int // by tenant
}

// Open opens the archive.
func Open(from Archive) (*Sender, error) {
	s := &Sender{busy: make(map[string]int)}
	if from.URL == "" {
		return s, nil
	}
	var err error
	if s.store, err = archive.Open(from.URL, from.Access); err != nil {
		return nil, fmt.Errorf("checkpoint_archive: %w", err)
	}
	return s, nil
}

// Download is a checkpoint that can be sent. It must be closed.
type Download struct {
	sender *Sender
	tenant string
	of     *v1.Checkpoint
	saved  *checkpoints.Saved
}

// Find opens a checkpoint in the archive for a caller of a tenant. The error is an Unfit, ErrBusy, or an error of the archive.
func (s *Sender) Find(ctx context.Context, tenant string, c *v1.Checkpoint) (*Download, error) {
	if err := s.fit(c); err != nil {
		return nil, err
	}
	if !s.begin(tenant) {
		return nil, ErrBusy
	}
	d := &Download{sender: s, tenant: tenant, of: c}
	var err error
	d.saved, err = checkpoints.Open(ctx, s.store, c.GetArchiveKey())
	if err == nil && d.saved.Digest() != c.GetContentDigest() {
		err = errors.New("the archive has another checkpoint in its place")
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// fit returns the reason why a checkpoint cannot be sent, or nil.
func (s *Sender) fit(c *v1.Checkpoint) error {
	switch {
	case c.GetState() == v1.CheckpointState_EXPIRED:
		return Unfit("the checkpoint was given up, and its files are removed: choose another checkpoint of the job")
	case c.GetState() == v1.CheckpointState_UPLOADING:
		return Unfit(fmt.Sprintf("the checkpoint is being uploaded to the archive (%d of %d bytes): try again when its state is DURABLE", c.GetUploadedBytes(), c.GetSizeBytes()))
	case c.GetState() != v1.CheckpointState_DURABLE:
		return Unfit("the checkpoint is on the node that wrote it, and not in the archive: wait until its state is DURABLE; for checkpoints to be archived, the agents and the gateway need checkpoint_archive")
	case s.store == nil:
		return Unfit("this gateway has no checkpoint_archive: set it to that of the agents")
	}
	return nil
}

// begin takes a slot for a tenant, if there is one.
func (s *Sender) begin(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == Most || s.busy[tenant] == MostOfTenant {
		return false
	}
	s.all++
	s.busy[tenant]++
	return true
}

// Close frees the slot.
func (d *Download) Close() {
	s := d.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.busy[d.tenant]--; s.busy[d.tenant] == 0 {
		delete(s.busy, d.tenant)
	}
}

// Head sets the headers of the response.
func (d *Download) Head(h http.Header) {
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", d.of.GetCheckpointId()+".tar"))
	h.Set(HeaderDigest, d.saved.Digest())
}

// Send sends the checkpoint after the headers. It ends at once when ctx does, also if the caller reads nothing. After an error the
// caller must break the connection: a response that ends normally would look complete.
func (d *Download) Send(ctx context.Context, w http.ResponseWriter) error {
	to := &patient{w: w, control: http.NewResponseController(w)}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		to.stop()
	})
	err := d.saved.Tar(ctx, to, d.of.GetCreatedAt().AsTime())
	if !stop() {
		<-stopped
	}
	if err != nil {
		to.stop()
	}
	return err
}

// patient is a writer that fails when the caller reads nothing for too long.
type patient struct {
	w       io.Writer
	control *http.ResponseController

	mu      sync.Mutex
	stopped bool
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return 0, context.Canceled
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(slowest))
	p.mu.Unlock()
	return p.w.Write(b)
}

// stop makes the write in progress and all later ones fail.
func (p *patient) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	_ = p.control.SetWriteDeadline(time.Unix(1, 0))
}
