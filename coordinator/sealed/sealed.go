// Package sealed keeps the tokens that jobs fetch their data with: encrypted in the state, opened for a task.
//
// Guarantees. What is sealed opens for its tenant only, and only on coordinators with the same secret. The same tokens look
// different each time that they are sealed. A token that a job has no use for is not kept.
//
// Not guaranteed: that a token is still good when the job runs.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/coordinator/jobspec"
	"github.com/mindcoordinator/mind/fsm/work"
)

// A job fetches its data with the tokens of its submitter when it starts, which may be long after and under another leader.
// So the tokens are in the replicated state, and on disk. There they are encrypted, under a key that all coordinators derive
// from a secret that is in none of these places.

// sealVersion is the first byte of what is sealed.
const sealVersion byte = 1

// Sealer seals and opens credentials. Without a key it does neither.
type Sealer struct {
	aead cipher.AEAD
	log  *slog.Logger
}

// New derives the key. A secret of its own goes before that of the calls.
func New(key []byte, apiSecret string, log *slog.Logger) (Sealer, error) {
	if len(key) == 0 {
		key = []byte(apiSecret)
	}
	if len(key) == 0 {
		return Sealer{log: log}, nil
	}
	derived, err := hkdf.Key(sha256.New, key, nil, "mind job credentials v1", 32)
	if err != nil {
		return Sealer{}, fmt.Errorf("deriving the key of credentials: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return Sealer{}, fmt.Errorf("key of credentials: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return Sealer{}, fmt.Errorf("key of credentials: %w", err)
	}
	return Sealer{aead: aead, log: log}, nil
}

// seal encrypts credentials so that they open for one tenant only.
func (s Sealer) seal(tenant string, credentials *v1.DataCredentials) ([]byte, error) {
	plain, err := proto.Marshal(credentials)
	if err != nil {
		return nil, fmt.Errorf("encoding credentials: %w", err)
	}
	return s.aead.Seal([]byte{sealVersion}, nil, plain, []byte(tenant)), nil
}

var errSealed = errors.New("the credentials of the job cannot be opened: they were sealed under another api_secret or credentials_key")

// open decrypts what seal returned.
func (s Sealer) open(tenant string, sealed []byte) (*v1.DataCredentials, error) {
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

// MaxToken bounds a token that is kept.
const MaxToken = 16 << 10

// Seal encrypts those of the caller's tokens that the job will need; nil: none. What a job has no use for is not kept.
func (s Sealer) Seal(c *call.Call, req *v1.SubmitJobRequest) ([]byte, error) {
	var needed v1.DataCredentials
	for _, path := range jobspec.Inputs(req) {
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
	if len(needed.ScaidriveToken) > MaxToken || len(needed.ScaiatlasToken) > MaxToken {
		return nil, call.Errorf(codes.InvalidArgument, "a token for ScaiDrive or ScaiAtlas takes at most %d bytes", MaxToken)
	}
	if s.aead == nil {
		return nil, call.Errorf(codes.FailedPrecondition, "this cluster cannot keep tokens for ScaiDrive and ScaiAtlas: the operator sets api_secret, or credentials_key, of the coordinators")
	}
	return s.seal(c.Tenant, &needed)
}

// Unseal puts the credentials of a job into its specification. A task without them says what it lacks when it needs them.
func (s Sealer) Unseal(j *work.Job, spec *v1.TaskSpec) {
	if len(j.Credentials) == 0 {
		return
	}
	credentials, err := s.open(j.Tenant, j.Credentials)
	if err != nil {
		s.log.Error("a job goes without its credentials", "job", j.ID.String(), "error", err)
		return
	}
	spec.Credentials = credentials
}
