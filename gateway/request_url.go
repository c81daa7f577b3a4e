package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// checkURL refuses a path or query that is not UTF-8, and a query that is not escaped correctly. Messages cannot carry such
// texts, and no name contains them. The unreadable part would be dropped, and with it perhaps a filter or the object of the
// request.
func checkURL(r *http.Request) *problem {
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

// checkQuery refuses a query with a parameter that the route does not have, or with two values for a parameter that
// takes one: a filter with a misspelt name would be dropped, and the answer would contain all objects. Probes and
// scrapers may add any parameters to open routes.
func (r *route) checkQuery(request *http.Request) *problem {
	if r.open || request.URL.RawQuery == "" {
		return nil
	}
	query := request.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		at := slices.IndexFunc(r.query, func(p openapi.Parameter) bool { return p.Name == name })
		switch {
		case at < 0 && len(r.query) == 0:
			return invalid(wire.Printable(name), fmt.Sprintf("is no parameter of %s: it takes none", r.name))
		case at < 0:
			var takes []string
			for _, p := range r.query {
				takes = append(takes, p.Name)
			}
			return invalid(wire.Printable(name), fmt.Sprintf("is no parameter of %s: it takes %s", r.name, strings.Join(takes, ", ")))
		case len(query[name]) > 1 && r.query[at].Schema["type"] != "array":
			return invalid(name, "is given twice")
		}
	}
	return nil
}
