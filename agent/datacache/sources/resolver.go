package sources

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mindcoordinator/mind/agent/private"
	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/reach"
)

// Config configures a resolver. The comment of an optional field says what its zero value means.
type Config struct {
	// Node is the node's name in messages.
	Node string
	// Roots are the directories in which local sources may lie.
	Roots []string
	// Own returns directories that one tenant may also use; nil: none.
	Own func(tenant string) []string
	// As runs a function with the rights on files of the user of a tenant's jobs; nil: jobs have the user of the agent.
	As func(tenant string, f func()) error
	// Private are directories that no local source may use, unless Roots or Own contains something in them.
	Private *private.Paths
	// Hosts are the hosts from which data may be fetched; see package reach. Empty: all except this machine and link-local
	// addresses.
	Hosts []string
	// Hub is the service for hf:// sources; an empty URL: https://huggingface.co.
	Hub Service
	// Drive and Atlas are the services for scaidrive:// and scaiatlas:// sources; an empty URL: none.
	Drive, Atlas Service
	// S3 is the object store for s3:// sources.
	S3 S3
	// Archive stores checkpoints that are no longer on their nodes; nil: there is none.
	Archive archive.Store
	// Archives are the URLs of the node's archives, as package archive takes them: no s3:// source may lie there, whatever its key.
	Archives []string
	// Connections is how many connections to one host are kept for the next transfer.
	Connections int
}

// Service is an HTTP service that the operator has configured.
type Service struct {
	URL string
	// Token is sent if the request has no token of its own.
	Token string
}

// S3 is an object store.
type S3 struct {
	// Endpoint is its URL; empty: Amazon's.
	Endpoint  string
	Region    string
	PathStyle bool
	// KeyID and Secret are the node's own key for data, which every tenant may use; one is empty: requests are anonymous.
	KeyID, Secret string
	CAFile        string
}

// Credentials belong to one request and are not kept.
type Credentials struct {
	ScaiDrive, ScaiAtlas string
	// HubToken is the token for the hub, KeyID and Secret a key for object stores, all from the environment of the job.
	HubToken                      string
	AWSKeyID, AWSSecret, AWSToken string
}

// defaultHub is the hub of operators who set none.
const defaultHub = "https://huggingface.co"

// Validate joins all faults of the configuration.
func (c Config) Validate() error {
	var faults []error
	for _, dir := range c.Roots {
		if !filepath.IsAbs(dir) {
			faults = append(faults, fmt.Errorf("data roots: %q is not an absolute path", dir))
		}
	}
	for name, url := range map[string]string{"the Hugging Face hub": c.Hub.URL, "ScaiDrive": c.Drive.URL, "ScaiAtlas": c.Atlas.URL, "the object store": c.S3.Endpoint} {
		if _, err := reach.Base(url); url != "" && err != nil {
			faults = append(faults, fmt.Errorf("URL of %s: %w", name, err))
		}
	}
	return errors.Join(append(faults, reach.CheckHosts(c.Hosts))...)
}

// Resolver finds the sources of one node. It is safe for concurrent use.
type Resolver struct {
	cfg   Config
	reach *reach.Guard
}

// New returns a resolver.
func New(cfg Config) (*Resolver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Hub.URL = cmp.Or(cfg.Hub.URL, defaultHub)
	guard, err := reach.New(reach.Config{
		Hosts: cfg.Hosts, Services: []string{cfg.Hub.URL, cfg.Drive.URL, cfg.Atlas.URL, cfg.S3.Endpoint}, CAFile: cfg.S3.CAFile, Connections: cfg.Connections,
	})
	if err != nil {
		return nil, err
	}
	return &Resolver{cfg: cfg, reach: guard}, nil
}
