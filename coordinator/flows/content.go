package flows

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/flows"
)

// The names in a content that the server sets. They are not stored: every reader gets those of the flow.
const (
	idName      = "id"
	versionName = "version"
)

// pack brings a content into the form in which it is stored: the shortest JSON with sorted keys, without what the server sets. It
// returns the version that the content names, too.
func pack(text string) (content flows.Content, named string, err error) {
	var graph map[string]any
	read := json.NewDecoder(strings.NewReader(text))
	read.UseNumber() // A number keeps its digits.
	if err := read.Decode(&graph); err != nil {
		return content, "", call.Bad("content", "is no JSON object: %v", err)
	}
	if _, err := read.Token(); !errors.Is(err, io.EOF) || graph == nil {
		return content, "", call.Bad("content", "must be one JSON object")
	}
	named, _ = graph[versionName].(string)
	delete(graph, idName)
	delete(graph, versionName)
	var plain bytes.Buffer
	write := json.NewEncoder(&plain)
	write.SetEscapeHTML(false)
	if err := write.Encode(graph); err != nil {
		return content, "", fmt.Errorf("storing the content of a flow: %w", err)
	}
	raw := bytes.TrimSuffix(plain.Bytes(), []byte("\n"))
	if len(raw) > flows.MaxContent {
		return content, "", call.Bad("content", "has %d bytes, and at most %d are stored: move long texts out of it, or split the flow", len(raw), flows.MaxContent)
	}
	sum := sha256.Sum256(raw)
	content.Digest, content.Size = hex.EncodeToString(sum[:]), uint32(len(raw))
	content.Packed, err = compress(raw)
	return content, named, err
}

func compress(raw []byte) ([]byte, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(raw)
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("compressing the content of a flow: %w", err)
	}
	return packed.Bytes(), nil
}

// unpack returns the content of a version with the id of its flow and its version in it.
func unpack(v *flows.Version) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(v.Content.Packed))
	if err != nil {
		return "", fmt.Errorf("reading version %s of the flow %s: %w", v.Name, v.Flow, err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, flows.MaxContent+1))
	if err != nil || len(raw) < len("{}") || len(raw) > flows.MaxContent {
		return "", fmt.Errorf("reading version %s of the flow %s, which has %d bytes: %w", v.Name, v.Flow, len(raw), err)
	}
	return shownContent(v, raw), nil
}

// firstVersion is the version of a new flow whose content names one: its three numbers, if it is a semantic version.
func firstVersion(named string) string {
	numbers, _, _ := strings.Cut(named, "+")
	numbers, _, _ = strings.Cut(numbers, "-")
	if flows.CanBeFirst(numbers) {
		return numbers
	}
	return flows.FirstVersion
}
