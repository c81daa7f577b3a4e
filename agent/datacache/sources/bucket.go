package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/mindcoordinator/mind/archive"
	"github.com/mindcoordinator/mind/reach"
)

// bucket resolves s3://BUCKET/KEY: an object, or all objects below a prefix.
func (r *Resolver) bucket(ctx context.Context, u *url.URL, given Credentials) (*Source, error) {
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, Faultf("write s3://BUCKET/KEY or s3://BUCKET/PREFIX/")
	}
	key := strings.TrimPrefix(u.Path, "/")
	if err := r.notKept(u.Host, key); err != nil {
		return nil, err
	}
	client, err := r.s3(given)
	if err != nil {
		return nil, err
	}
	if key != "" && !strings.HasSuffix(key, "/") {
		info, err := client.StatObject(ctx, u.Host, key, minio.StatObjectOptions{})
		if err == nil {
			return &Source{Files: []File{r.s3File(client, u.Host, key, path.Base(key), info)}, Version: info.ETag}, nil
		}
		if minio.ToErrorResponse(err).StatusCode != http.StatusNotFound {
			return nil, r.s3Failed(u.Host, err)
		}
		key += "/"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the lister
	s := &Source{}
	var versions strings.Builder
	for info := range client.ListObjects(ctx, u.Host, minio.ListObjectsOptions{Prefix: key, Recursive: true}) {
		if info.Err != nil {
			return nil, r.s3Failed(u.Host, info.Err)
		}
		name := strings.TrimPrefix(info.Key, key)
		if strings.HasSuffix(name, "/") || name == "" {
			continue // stands for a directory
		}
		s.Files = append(s.Files, r.s3File(client, u.Host, info.Key, name, info))
		versions.WriteString(name + "\x00" + info.ETag + "\n")
		if len(s.Files) > maxFiles {
			break
		}
	}
	s.Version = digestOf(versions.String())
	return s, ctx.Err()
}

// notKept refuses a source in an archive of the node, which has what jobs of all tenants wrote.
func (r *Resolver) notKept(bucket, key string) error {
	if slices.Contains(strings.Split(key, "/"), "..") { // a proxy in front of the store may take it for another bucket
		return Faultf("write s3://BUCKET/KEY without ..")
	}
	for _, kept := range r.cfg.Archives {
		if archive.Overlaps(kept, r.cfg.S3.Endpoint, bucket, key) {
			return missingf("s3://%s is the archive of node %s, or has it below what is named: it keeps what the jobs of all tenants wrote, and is no source of data; use another bucket, or another prefix", bucket, r.cfg.Node)
		}
	}
	return nil
}

// s3 makes a client with the key of the job, or the key of the node for data, or anonymously without these. The agent's
// environment has the key of its archives, which is never used here.
func (r *Resolver) s3(given Credentials) (*minio.Client, error) {
	p := r.cfg.S3
	host, secure := "s3.amazonaws.com", true
	if p.Endpoint != "" {
		endpoint, err := reach.Base(p.Endpoint)
		if err != nil {
			return nil, err
		}
		host, secure = endpoint.Host, endpoint.Scheme == "https"
	}
	id, secret, session := given.AWSKeyID, given.AWSSecret, given.AWSToken
	if id == "" || secret == "" {
		id, secret, session = p.KeyID, p.Secret, ""
	}
	keys := credentials.NewStaticV4(id, secret, session)
	if id == "" || secret == "" {
		keys = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	}
	lookup := minio.BucketLookupAuto
	if p.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(host, &minio.Options{
		Creds: keys, Secure: secure, Region: cmp.Or(p.Region, os.Getenv("AWS_REGION")), BucketLookup: lookup, Transport: r.reach.ObjectStore(), MaxRetries: 1,
	})
	if err != nil {
		return nil, Faultf("cannot use the object store at %s: %v", host, err)
	}
	return client, nil
}

func (r *Resolver) s3File(client *minio.Client, bucket, key, name string, info minio.ObjectInfo) File {
	return File{Name: name, Size: info.Size, Strong: info.ETag != "", Open: func(ctx context.Context, offset int64) (io.ReadCloser, int64, error) {
		if offset > 0 && offset == info.Size {
			return io.NopCloser(strings.NewReader("")), offset, nil // no range begins at the end
		}
		var options minio.GetObjectOptions
		var err error
		if offset > 0 {
			err = options.SetRange(offset, 0)
		}
		if err == nil && info.ETag != "" {
			err = options.SetMatchETag(info.ETag)
		}
		if err != nil {
			return nil, 0, err
		}
		body, _, _, err := minio.Core{Client: client}.GetObject(ctx, bucket, key, options)
		if err != nil {
			return nil, 0, r.s3Failed(bucket, err)
		}
		return body, offset, nil
	}}
}

// s3Failed explains an error answer of the store.
func (r *Resolver) s3Failed(bucket string, err error) error {
	var f fault
	if errors.As(err, &f) {
		return f
	}
	var refusal reach.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed:
		return ErrChanged
	case answer.Code == minio.NoSuchBucket:
		return missingf("the object store has no bucket %s: check its name, and the endpoint in the configuration of the agents", bucket)
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized ||
		answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchKey: // some stores answer this for an unknown key id
		return missingf("the object store denies access (%s): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in training_config.environment to a key that may read it, or data_s3_key_id and data_s3_secret of the agents", answer.Code)
	case answer.StatusCode == http.StatusNotFound:
		return missingf("bucket %s has nothing there: check the key", bucket)
	}
	return fmt.Errorf("node %s cannot fetch from the object store: %w", r.cfg.Node, bare(err))
}
