package archive

import (
	"net/url"
	"path"
	"strings"
)

// Overlaps reports whether the archive of a URL is a bucket of the same name at the same endpoint, a URL or "" for Amazon's, and what
// lies at a key or below it is a part of the archive, or has a part of it. Spellings of a key that some store takes for
// another one, such as a//b, count as that one.
func Overlaps(address, endpoint, bucket, key string) bool {
	u, err := parse(address)
	if err != nil || u.Scheme != "s3" {
		return false
	}
	p, err := bucketOf(u)
	if err != nil || !strings.EqualFold(p.name, bucket) {
		return false
	}
	host := amazon
	if e, err := url.Parse(endpoint); endpoint != "" && err == nil {
		host = e.Host
	}
	at := strings.TrimPrefix(path.Clean("/"+key), "/")
	if at != "" {
		at += "/"
	}
	return sameStore(p.host, host) && (strings.HasPrefix(at, p.prefix) || strings.HasPrefix(p.prefix, at))
}

// sameStore compares the hosts of two endpoints. All of Amazon's share their buckets.
func sameStore(a, b string) bool {
	bare := func(host string) string {
		host = strings.ToLower(host)
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
		host = strings.TrimSuffix(host, ".")
		if strings.HasSuffix(host, ".amazonaws.com") {
			return amazon
		}
		return host
	}
	return bare(a) == bare(b)
}
