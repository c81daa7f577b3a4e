package output

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mindcoordinator/mind/archive"
)

// Archive configures the archive to which agents ship logs and metrics of tasks. The zero value means that only agents
// have them.
type Archive struct {
	// URL is the URL of the archive, in the form of package archive. It is the same for coordinators and agents.
	URL string
	// Access is the access to a bucket, for reading; the zero value: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Access archive.Access
}

// archived is the archive as a coordinator reads it.
type archived struct {
	store archive.Store // nil: there is none
	reads *prometheus.CounterVec
}

func openArchive(config Archive, reg prometheus.Registerer) (archived, error) {
	a := archived{reads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mind_log_archive_reads_total", Help: "Reads of a task from the log archive, by result.",
	}, []string{"outcome"})}
	reg.MustRegister(a.reads)
	if config.URL == "" {
		return a, nil
	}
	store, err := archive.Open(config.URL, config.Access)
	if err != nil {
		return a, fmt.Errorf("log archive: %w", err)
	}
	a.store = store
	return a, nil
}

// asked counts a read by its result.
func (a archived) asked(err error) {
	switch {
	case err == nil:
		a.reads.WithLabelValues("found").Inc()
	case errors.Is(err, archive.ErrNotFound):
		a.reads.WithLabelValues("missing").Inc()
	default:
		a.reads.WithLabelValues("failed").Inc()
	}
}
