package gateway

import (
	"fmt"
	"net/http"
	"unicode/utf8"
)

// legible refuses a path or query that is no UTF-8. Messages cannot carry such texts, and nothing is named by one.
func legible(r *http.Request) *problem {
	if !utf8.ValidString(r.URL.Path) {
		return &problem{http: http.StatusNotFound, code: "NOT_FOUND", message: fmt.Sprintf("there is no %s", printable(r.URL.Path))}
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	for name, values := range r.URL.Query() {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) {
				return invalid(printable(name), "must be UTF-8")
			}
		}
	}
	return nil
}
