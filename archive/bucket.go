package archive

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// amazon is the endpoint of buckets for which none is given.
const amazon = "s3.amazonaws.com"

// bucket is a store in an S3-compatible bucket, which must exist.
type bucket struct {
	client *minio.Client
	name   string
	prefix string // "" or ends with a slash
}

// place is the content of a bucket's URL.
type place struct {
	name, prefix   string
	host, region   string
	secure, byPath bool
}

func bucketOf(u *url.URL) (place, error) {
	p := place{name: u.Host, prefix: strings.Trim(u.Path, "/"), host: amazon, secure: true}
	if p.prefix != "" {
		if err := checkKey(p.prefix); err != nil {
			return p, fmt.Errorf("prefix of the bucket: %w", err)
		}
		p.prefix += "/"
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			e, err := url.Parse(value)
			if err != nil || e.Host == "" || e.User != nil || (e.Path != "" && e.Path != "/") || (e.Scheme != "https" && e.Scheme != "http") {
				return p, fmt.Errorf("endpoint %q of the archive: give https://HOST:PORT", value)
			}
			p.host, p.secure = e.Host, e.Scheme == "https"
		case "region":
			p.region = value
		case "path_style":
			byPath, err := strconv.ParseBool(value)
			if err != nil {
				return p, fmt.Errorf("path_style of the archive must be true or false, not %q", value)
			}
			p.byPath = byPath
		default:
			return p, fmt.Errorf("the URL of the archive has an unknown parameter %q: endpoint, region and path_style are allowed", name)
		}
	}
	return p, nil
}

func openBucket(u *url.URL, access Access) (Store, error) {
	p, err := bucketOf(u)
	if err != nil {
		return nil, err
	}
	keyID, secret := cmp.Or(access.KeyID, os.Getenv("AWS_ACCESS_KEY_ID")), cmp.Or(access.Secret, os.Getenv("AWS_SECRET_ACCESS_KEY"))
	if keyID == "" || secret == "" {
		return nil, errors.New("a bucket as archive needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or log_archive_key_id and log_archive_secret (checkpoint_archive_key_id and checkpoint_archive_secret) in the configuration")
	}
	session := ""
	if access.KeyID == "" {
		session = os.Getenv("AWS_SESSION_TOKEN")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	// Parts are small and the same few are read repeatedly: compression would only cost time.
	transport.DisableCompression = true
	if access.CAFile != "" {
		pem, err := os.ReadFile(access.CAFile)
		if err != nil {
			return nil, fmt.Errorf("authority of the archive: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authority of the archive: %s holds no certificate", access.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	lookup := minio.BucketLookupAuto
	if p.byPath {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(p.host, &minio.Options{
		Creds: credentials.NewStaticV4(keyID, secret, session), Secure: p.secure, Region: p.region, BucketLookup: lookup,
		Transport: transport, MaxRetries: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("archive at %s: %w", p.host, err)
	}
	return &bucket{client: client, name: p.name, prefix: p.prefix}, nil
}

// Put sends the object in one request, which the server accepts or refuses as a whole.
func (b *bucket) Put(ctx context.Context, key string, body io.Reader, size int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, body, size, minio.PutObjectOptions{DisableMultipart: true, ContentType: "application/octet-stream"})
	return failed("put", key, err)
}

// Get asks for the rest of the object from the offset on.
func (b *bucket) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var options minio.GetObjectOptions
	if offset > 0 {
		if err := options.SetRange(offset, 0); err != nil {
			return nil, failed("get", key, err)
		}
	}
	body, _, _, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+key, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return body, failed("get", key, err)
}

// List reads the pages of the bucket's list.
func (b *bucket) List(ctx context.Context, prefix string) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the lister
	var found []Object
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, failed("list", prefix, o.Err)
		}
		found = append(found, Object{Key: strings.TrimPrefix(o.Key, b.prefix), Size: o.Size, Modified: o.LastModified})
	}
	slices.SortFunc(found, func(x, y Object) int { return strings.Compare(x.Key, y.Key) })
	return found, failed("list", prefix, ctx.Err())
}

// Delete removes the object.
func (b *bucket) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := failed("delete", key, b.client.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func failed(doing, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return fmt.Errorf("%s %s: %w", doing, key, ErrNotFound)
	}
	return fmt.Errorf("%s %s: %w", doing, key, err)
}
