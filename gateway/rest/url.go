package rest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"github.com/mindcoordinator/mind/gateway/openapi"
	"github.com/mindcoordinator/mind/gateway/wire"
)

// CheckURL refuses a path or query that is not UTF-8, and a query that is not escaped correctly. Messages cannot carry such
// texts, and no name contains them. The unreadable part would be dropped, and with it perhaps a filter or the object of the
// request.
func CheckURL(r *http.Request) *Problem {
	if !utf8.ValidString(r.URL.Path) {
		return &Problem{HTTP: http.StatusNotFound, Code: "NOT_FOUND", Message: fmt.Sprintf("there is no %s", wire.Printable(r.URL.Path))}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Invalid("query", "is not escaped correctly: write % as %25 and ; as %3B")
	}
	for name, values := range query {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) {
				return Invalid(wire.Printable(name), "must be UTF-8")
			}
		}
	}
	return nil
}

// CheckQuery refuses a query with a parameter that the route does not have, or with two values for a parameter that
// takes one: a filter with a misspelt name would be dropped, and the answer would contain all objects. Probes and
// scrapers may add any parameters to open routes.
func (r *Route) CheckQuery(request *http.Request) *Problem {
	if r.Open || request.URL.RawQuery == "" {
		return nil
	}
	query := request.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		at := slices.IndexFunc(r.Query, func(p openapi.Parameter) bool { return p.Name == name })
		switch {
		case at < 0 && len(r.Query) == 0:
			return Invalid(wire.Printable(name), fmt.Sprintf("is no parameter of %s: it takes none", r.Name))
		case at < 0:
			var takes []string
			for _, p := range r.Query {
				takes = append(takes, p.Name)
			}
			return Invalid(wire.Printable(name), fmt.Sprintf("is no parameter of %s: it takes %s", r.Name, strings.Join(takes, ", ")))
		case len(query[name]) > 1 && r.Query[at].Schema["type"] != "array":
			return Invalid(name, "is given twice")
		}
	}
	return nil
}

// ID is the variable part of a path that has one, called id.
func (x *Request) ID() string { return x.Segment("id") }

// Segment returns a variable part of the path.
func (x *Request) Segment(name string) string {
	escaped := mux.Vars(x.R)[name]
	if plain, err := url.PathUnescape(escaped); err == nil {
		return plain
	}
	return escaped // impossible: the server has unescaped the whole path
}
