package uploads

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxPieces limits the pieces of a pack: each takes memory wherever an upload is offered.
const maxPieces = 20_000

// Piece is a piece in a pack.
type Piece struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// heading is the first line of a pack as it is sent. The contents of its pieces follow.
type heading struct {
	Pieces []Piece `json:"pieces"`
}

// EncodePack returns a pack as it is sent.
func EncodePack(pieces []Piece, content []byte) ([]byte, error) {
	line, err := json.Marshal(heading{pieces})
	if err != nil {
		return nil, fmt.Errorf("encode a pack: %w", err)
	}
	return append(append(line, '\n'), content...), nil
}

// decodePack reads a pack, and compares all contents with their digests.
func decodePack(sent []byte) (pieces []Piece, content []byte, err error) {
	line, content, found := bytes.Cut(sent, []byte{'\n'})
	var h heading
	if !found || json.Unmarshal(line, &h) != nil {
		return nil, nil, Invalid("the body is no pack: it begins with a line {\"pieces\":[{\"sha256\":...,\"size\":...}]}, and the contents follow")
	}
	if len(h.Pieces) == 0 || len(content) > PackSize {
		return nil, nil, invalidf("a pack has at least one piece, and at most %d bytes of content", PackSize)
	}
	if len(h.Pieces) > maxPieces {
		return nil, nil, invalidf("a pack has at most %d pieces", maxPieces)
	}
	at, seen := int64(0), make(map[string]bool, len(h.Pieces))
	for _, p := range h.Pieces {
		if seen[p.SHA256] {
			return nil, nil, invalidf("the piece %.64q is in the pack twice", p.SHA256)
		}
		seen[p.SHA256] = true
		if p.Size <= 0 || p.Size > PieceSize || p.Size > int64(len(content))-at {
			return nil, nil, invalidf("the piece %.64q of %d bytes is not in the pack completely", p.SHA256, p.Size)
		}
		if Sum(content[at:at+p.Size]) != p.SHA256 {
			return nil, nil, invalidf("the content of piece %.64q differs from its digest", p.SHA256)
		}
		at += p.Size
	}
	if at != int64(len(content)) {
		return nil, nil, invalidf("the pack has %d bytes behind its last piece", int64(len(content))-at)
	}
	return h.Pieces, content, nil
}
