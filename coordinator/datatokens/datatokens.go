// Package datatokens keeps the data tokens of jobs: encrypted in the state, decrypted for a task.
//
// Guarantees. Sealed tokens can be opened for their tenant only, and only by coordinators with the same secret. The same
// tokens give a different ciphertext each time. A token that a job does not need is not stored.
//
// Not guaranteed: that a token is still valid when the job runs.
package datatokens

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

// A job fetches its data with the tokens of its submitter when it starts, perhaps much later and under another leader. So
// the tokens are in the replicated state, and on disk. There they are encrypted, with a key that all coordinators derive
// from a secret that is stored in neither.

// sealVersion is the first byte of sealed credentials.
const sealVersion byte = 1

// Sealer seals and opens credentials. Without a key it does neither.
type Sealer struct {
	aead cipher.AEAD
	log  *slog.Logger
}

// New derives the key. A separate secret has precedence over the API secret.
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

// seal encrypts credentials so that they can be opened for one tenant only.
func (s Sealer) seal(tenant string, credentials *v1.DataCredentials) ([]byte, error) {
	plain, err := proto.Marshal(credentials)
	if err != nil {
		return nil, fmt.Errorf("encoding credentials: %w", err)
	}
	return s.aead.Seal([]byte{sealVersion}, nil, plain, []byte(tenant)), nil
}

var errSealed = errors.New("the credentials of the job cannot be decrypted: they were encrypted with another api_secret or credentials_key")

// open decrypts the result of seal.
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

// MaxToken limits a stored token.
const MaxToken = 16 << 10

// Seal encrypts the caller's tokens that the job will need; nil: none. Other tokens are not stored.
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
		return nil, call.Errorf(codes.InvalidArgument, "a token for ScaiDrive or ScaiAtlas must have at most %d bytes", MaxToken)
	}
	if s.aead == nil {
		return nil, call.Errorf(codes.FailedPrecondition, "this cluster cannot store tokens for ScaiDrive and ScaiAtlas: the operator must set api_secret or credentials_key of the coordinators")
	}
	return s.seal(c.Tenant, &needed)
}

// Unseal adds the credentials of a job to a specification. A task without them reports the missing ones when it needs
// them.
func (s Sealer) Unseal(j *work.Job, spec *v1.TaskSpec) {
	if len(j.Credentials) == 0 {
		return
	}
	credentials, err := s.open(j.Tenant, j.Credentials)
	if err != nil {
		s.log.Error("a job runs without its credentials", "job", j.ID.String(), "error", err)
		return
	}
	spec.Credentials = credentials
}
