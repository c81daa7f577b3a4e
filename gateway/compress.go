package gateway

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// Answers below this size gain nothing: they fit into one packet as they are.
const minCompressed = 1400

// compressed returns a handler that compresses JSON for callers that accept gzip or zstd. Event streams must not pass through
// it: their events would wait in its buffer.
func compressed(h http.Handler) http.Handler { return compressor(h) }

var compressor = func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed), gzhttp.ContentTypes([]string{"application/json"}), gzhttp.CompressionLevel(1), gzhttp.ZstdCompressionLevel(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}()
