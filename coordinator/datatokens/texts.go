package datatokens

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/mindcoordinator/mind/coordinator/call"
)

// textVersion is the first byte of a sealed text.
const textVersion byte = 2

const keySize = 32

// errText is the error of a text that cannot be opened.
var errText = errors.New("it was encrypted with another api_secret or credentials_key")

// SealText encrypts a text for its owner with a key of its own, which is stored beside it, encrypted with the coordinators' key. So a
// change of that key encrypts keys again, and no texts.
func (s Sealer) SealText(owner string, plain []byte) ([]byte, error) {
	if s.aead == nil {
		return nil, call.Errorf(codes.FailedPrecondition, "this cluster cannot store secrets: the operator must set api_secret or credentials_key of the coordinators")
	}
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	inner, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	wrapped := s.aead.Seal(nil, nil, key, []byte(owner))
	out := append([]byte{textVersion, byte(len(wrapped))}, wrapped...)
	return inner.Seal(out, nil, plain, []byte(owner)), nil
}

// OpenText decrypts the result of SealText for the same owner.
func (s Sealer) OpenText(owner string, sealed []byte) ([]byte, error) {
	if s.aead == nil || len(sealed) < 2 || sealed[0] != textVersion || len(sealed) < 2+int(sealed[1]) {
		return nil, errText
	}
	wrapped, rest := sealed[2:2+sealed[1]], sealed[2+int(sealed[1]):]
	key, err := s.aead.Open(nil, nil, wrapped, []byte(owner))
	if err != nil {
		return nil, errText
	}
	inner, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	plain, err := inner.Open(nil, nil, rest, []byte(owner))
	if err != nil {
		return nil, errText
	}
	return plain, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("a key of a text: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
