package coordinator

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm"
)

// A job fetches its data with tokens of whoever submitted it, when it starts, which may be long after and under another
// leader: so they are in the replicated state, and on disk. There they are sealed: encrypted under a key that all coordinators
// derive from a secret that is in none of these places.

// sealVersion is the first byte of what is sealed.
const sealVersion byte = 1

// sealer seals and opens credentials. Without a key it does neither.
type sealer struct{ aead cipher.AEAD }

// newSealer derives the key. A secret of its own goes before that of the calls.
func newSealer(key []byte, apiSecret string) (sealer, error) {
	if len(key) == 0 {
		key = []byte(apiSecret)
	}
	if len(key) == 0 {
		return sealer{}, nil
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "mind job credentials v1", 32)
	if err != nil {
		return sealer{}, fmt.Errorf("deriving the key of credentials: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return sealer{}, fmt.Errorf("key of credentials: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sealer{}, fmt.Errorf("key of credentials: %w", err)
	}
	return sealer{aead}, nil
}

// seal encrypts credentials so that they open for one tenant only.
func (s sealer) seal(tenant string, credentials *v1.DataCredentials) ([]byte, error) {
	plain, err := proto.Marshal(credentials)
	if err != nil {
		return nil, fmt.Errorf("encoding credentials: %w", err)
	}
	return s.aead.Seal([]byte{sealVersion}, nil, plain, []byte(tenant)), nil
}

var errSealed = errors.New("the credentials of the job cannot be opened: they were sealed under another api_secret or credentials_key")

// open decrypts what seal returned.
func (s sealer) open(tenant string, sealed []byte) (*v1.DataCredentials, error) {
	if s.aead == nil || len(sealed) == 0 || sealed[0] != sealVersion {
		return nil, errSealed
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], []byte(tenant))
	if err != nil {
		return nil, errSealed
	}
	var out v1.DataCredentials
	if err := proto.Unmarshal(plain, &out); err != nil {
		return nil, errSealed
	}
	return &out, nil
}

// maxToken bounds a token that is kept.
const maxToken = 16 << 10

// credentials seals those of the caller's tokens that the job will need; nil: none. What a job has no use for is not kept.
func (s *server) credentials(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error) {
	var needed v1.DataCredentials
	for _, path := range wanted(req) {
		switch {
		case strings.HasPrefix(path, "scaidrive://"):
			needed.ScaidriveToken = c.DriveToken
		case strings.HasPrefix(path, "scaiatlas://"):
			needed.ScaiatlasToken = c.AtlasToken
		}
	}
	if needed.ScaidriveToken == "" && needed.ScaiatlasToken == "" {
		return nil, nil
	}
	if len(needed.ScaidriveToken) > maxToken || len(needed.ScaiatlasToken) > maxToken {
		return nil, call.Errorf(codes.InvalidArgument, "a token for ScaiDrive or ScaiAtlas takes at most %d bytes", maxToken)
	}
	if s.sealer.aead == nil {
		return nil, call.Errorf(codes.FailedPrecondition, "this cluster cannot keep tokens for ScaiDrive and ScaiAtlas: the operator sets api_secret, or credentials_key, of the coordinators")
	}
	return s.sealer.seal(c.Tenant, &needed)
}

// wanted lists what a job names that may have to be fetched.
func wanted(req *v1.SubmitJobRequest) []string {
	paths := []string{modelSource(req)}
	for _, source := range req.GetDataConfig().GetSources() {
		paths = append(paths, source.GetPath())
	}
	return paths
}

// renewed is credentials for a job that is to run again. What is not the caller's has none: the command will be refused.
func (s *server) renewed(c *call.Call, id fsm.JobID) ([]byte, error) {
	if c.DriveToken == "" && c.AtlasToken == "" {
		return nil, nil
	}
	j, ok := s.replica.View().Job(id)
	if !ok || j.Tenant != c.Tenant {
		return nil, nil
	}
	var spec v1.SubmitJobRequest
	if err := proto.Unmarshal(j.Spec, &spec); err != nil {
		return nil, fmt.Errorf("reading the request of job %s: %w", j.ID, err)
	}
	return s.credentials(c, &spec)
}

// unseal puts the credentials of a job into its specification. A task without them says what it lacks when it needs them.
func (s *server) unseal(j *fsm.Job, spec *v1.TaskSpec) {
	if len(j.Credentials) == 0 {
		return
	}
	credentials, err := s.sealer.open(j.Tenant, j.Credentials)
	if err != nil {
		s.log.Error("a job goes without its credentials", "job", j.ID.String(), "error", err)
		return
	}
	spec.Credentials = credentials
}
