package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/mindcoordinator/mind/gateway/wire"
)

// legible refuses a path or query that is not UTF-8, and a query that is not escaped correctly. Messages cannot carry such
// texts, and no name contains them. The unreadable part would be dropped, and with it perhaps a filter or the object of the
// request.
func legible(r *http.Request) *problem {
	if !utf8.ValidString(r.URL.Path) {
		return &problem{http: http.StatusNotFound, code: "NOT_FOUND", message: fmt.Sprintf("there is no %s", wire.Printable(r.URL.Path))}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("query", "is not escaped correctly: write % as %25 and ; as %3B")
	}
	for name, values := range query {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) {
				return invalid(wire.Printable(name), "must be UTF-8")
			}
		}
	}
	return nil
}
