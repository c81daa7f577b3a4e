package sources

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// store is an object store that has one object of every name, and shows with which key each request was signed.
func store(t *testing.T) (at string, signed chan string) {
	signed = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed <- r.Header.Get("Authorization")
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", "3")
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte("abc"))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, signed
}

// The agent's environment has the key of its archives, in which there is what jobs of all tenants wrote.
func TestTheKeyOfTheArchivesIsNotForData(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "KEY-OF-THE-ARCHIVES")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	for name, c := range map[string]struct {
		own    S3
		job    Credentials
		signed string
	}{
		"nobody has a key":              {},
		"the node has a key for data":   {own: S3{KeyID: "KEY-OF-DATA", Secret: "s"}, signed: "Credential=KEY-OF-DATA/"},
		"the node has half of one":      {own: S3{KeyID: "KEY-OF-DATA"}},
		"the job has a key":             {own: S3{KeyID: "KEY-OF-DATA", Secret: "s"}, job: Credentials{AWSKeyID: "KEY-OF-JOB", AWSSecret: "s"}, signed: "Credential=KEY-OF-JOB/"},
		"the job has half of one":       {job: Credentials{AWSKeyID: "KEY-OF-JOB"}},
		"the job has no more than that": {job: Credentials{AWSSecret: "s", AWSToken: "t"}},
	} {
		t.Run(name, func(t *testing.T) {
			at, signed := store(t)
			c.own.Endpoint, c.own.Region, c.own.PathStyle = at, "us-east-1", true
			r, err := New(Config{Node: "n1", S3: c.own})
			require.NoError(t, err)
			source, err := r.Resolve(t.Context(), "t1", "s3://bucket/set/a", c.job)
			require.NoError(t, err)
			body, _, err := source.Files[0].Open(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			require.Len(t, signed, 2)
			for range 2 {
				if got := <-signed; c.signed == "" {
					require.Empty(t, got, "a request is anonymous without a key for data")
				} else {
					require.Contains(t, got, c.signed)
				}
			}
		})
	}
}

// A source never lies in an archive of the agent or around it, whatever the key.
func TestAnArchiveIsNoSource(t *testing.T) {
	at, signed := store(t)
	endpoint := "?endpoint=" + url.QueryEscape(at)
	r, err := New(Config{Node: "n1", S3: S3{Endpoint: at, Region: "us-east-1", PathStyle: true}, Archives: []string{
		"", "file:///shared/mind", "s3://kept/mind/one" + endpoint, "s3://whole" + endpoint, "s3://far/mind?endpoint=https://another.example",
	}})
	require.NoError(t, err)
	for path, refused := range map[string]bool{
		"s3://kept/mind/one/checkpoints/acme/job_1/ckpt_1/f": true,
		"s3://kept/mind/one":           true,
		"s3://kept/mind/one/":          true,
		"s3://kept//mind/./one/x":      true,
		"s3://kept/mind":               true,
		"s3://kept/":                   true,
		"s3://kept":                    true,
		"s3://KEPT/mind/one/x":         true,
		"s3://kept/%6dind/one/x":       true,
		"s3://whole/any/thing":         true,
		"s3://data/../kept/mind/one/x": true,
		"s3://kept/mind/ones":          false,
		"s3://kept/mind/on":            false,
		"s3://kept/data":               false,
		"s3://keep/mind/one/x":         false,
		"s3://far/mind/x":              false,
	} {
		_, err := r.Resolve(t.Context(), "t1", path, Credentials{AWSKeyID: "KEY-OF-JOB", AWSSecret: "s"})
		if !refused {
			require.NoError(t, err, path)
			require.NotEmpty(t, signed, path)
			for len(signed) > 0 {
				<-signed
			}
			continue
		}
		require.Error(t, err, path)
		require.Empty(t, signed, "%s was asked for", path)
		require.False(t, Broken(err), path)
	}
	_, err = r.Resolve(t.Context(), "t1", "s3://whole/any/thing", Credentials{})
	require.ErrorContains(t, err, "the archive of node n1")
}
