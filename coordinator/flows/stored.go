package flows

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/coordinator/call"
	"github.com/mindcoordinator/mind/fsm/flows"
	"github.com/mindcoordinator/mind/fsm/ident"
)

// Archive configures the archive of the contents of flows. The zero value means that the state keeps all of them.
type Archive struct {
	// URL is the URL of the archive, in the form of package archive. It is the same on all coordinators.
	URL string
	// Access is the access to a bucket; the zero value: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	Access archive.Access
}

// maxStored bounds a stored content with the id and the version in it, bytes.
const maxStored = flows.MaxContent + 1<<10

// keyOfContent is where the archive has a content. The form was published.
func keyOfContent(tenant string, flow ident.Flow, version string) string {
	return "flows/" + folderOf(tenant) + "/" + flow.String() + "/v" + version + ".flow.json"
}

// folderOf is the name of a tenant, or a digest of one that cannot be a part of a key.
func folderOf(tenant string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if tenant != "" && len(tenant) <= 128 && tenant[0] != '.' && tenant[0] != '_' && strings.IndexFunc(tenant, func(r rune) bool { return !plain(r) }) < 0 {
		return tenant
	}
	sum := sha256.Sum256([]byte(tenant))
	return "_" + hex.EncodeToString(sum[:16])
}

// head begins each content that is shown or stored: the server sets the id and the version.
func head(v *flows.Version) string {
	return `{"id":` + strconv.Quote(v.Flow.String()) + `,"version":` + strconv.Quote(v.Name)
}

// shownContent is a content with the id of its flow and its version in it.
func shownContent(v *flows.Version, raw []byte) string {
	var b strings.Builder
	b.WriteString(head(v))
	if string(raw) != "{}" {
		b.WriteByte(',')
	}
	b.Write(raw[1:])
	return b.String()
}

// checked says whether a stored text is the content of a version.
func checked(v *flows.Version, text []byte) error {
	rest, ok := bytes.CutPrefix(text, []byte(head(v)))
	rest = bytes.TrimPrefix(rest, []byte(","))
	sum := sha256.Sum256(append([]byte("{"), rest...))
	if !ok || hex.EncodeToString(sum[:]) != v.Content.Digest {
		return fmt.Errorf("it is not the content with the digest %s", v.Content.Digest)
	}
	return nil
}

// content returns the content of a version: from the state, or else from the archive.
func (s *Service) content(ctx context.Context, tenant string, v *flows.Version) (string, error) {
	if len(v.Content.Packed) > 0 {
		return unpack(v)
	}
	if s.store == nil {
		return "", call.Errorf(codes.FailedPrecondition, "the content of version %s is in the archive of flows, and this coordinator has none: set flow_archive as on the others", v.Name)
	}
	text, err := s.fetch(ctx, tenant, v)
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, archive.ErrNotFound):
		return "", call.Errorf(codes.FailedPrecondition, "the content of version %s is lost: the archive of flows does not have %s", v.Name, keyOfContent(tenant, v.Flow, v.Name))
	}
	s.Log.Error("the content of a version of a flow cannot be read from the archive", "flow", v.Flow.String(), "version", v.Name, "error", err)
	return "", call.Errorf(codes.Unavailable, "the content of version %s cannot be read from the archive of flows now: the log of the coordinator says why; try again", v.Name)
}

// fetch reads a content from the archive, and checks it.
func (s *Service) fetch(ctx context.Context, tenant string, v *flows.Version) (string, error) {
	body, err := s.store.Get(ctx, keyOfContent(tenant, v.Flow, v.Name), 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxStored+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", keyOfContent(tenant, v.Flow, v.Name), err)
	}
	if err := checked(v, text); err != nil {
		return "", fmt.Errorf("%s: %w", keyOfContent(tenant, v.Flow, v.Name), err)
	}
	return string(text), nil
}

// write puts a content into the archive, and reads it back: the state keeps it no longer after that.
func (s *Service) write(ctx context.Context, tenant string, v *flows.Version) error {
	text, err := unpack(v)
	if err != nil {
		return err
	}
	if err := s.store.Put(ctx, keyOfContent(tenant, v.Flow, v.Name), strings.NewReader(text), int64(len(text))); err != nil {
		return err
	}
	_, err = s.fetch(ctx, tenant, v)
	return err
}
