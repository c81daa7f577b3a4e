package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// keys sign webhooks. All of them sign, so that a receiver which knows one of two verifies while the secret is rotated.
type keys [][]byte

const (
	// keyPrefix begins a secret as Standard Webhooks writes it.
	keyPrefix = "whsec_"
	minKey    = 24
	maxKey    = 64
	maxKeys   = 8
)

// readKeys reads the file of the secrets: one a line, in base64, with or without whsec_ before it.
func readKeys(path string) (keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("webhook_secret_file: %w", err)
	}
	found, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("webhook_secret_file %s: %w", path, err)
	}
	return found, nil
}

func parseKeys(text string) (found keys, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, keyPrefix))
		if err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("line %d is not %s and %d to %d bytes in base64, such as of openssl rand -base64 32", number, keyPrefix, minKey, maxKey)
		}
		found = append(found, key)
	}
	switch {
	case len(found) == 0:
		return nil, errors.New("it has no secret")
	case len(found) > maxKeys:
		return nil, fmt.Errorf("it has %d secrets, and at most %d are allowed", len(found), maxKeys)
	}
	return found, nil
}

// sign returns the value of the header webhook-signature.
func (k keys) sign(id string, at time.Time, body []byte) string {
	var signatures []string
	for _, key := range k {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
