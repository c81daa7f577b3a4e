// Package param describes the parameters that queries take, for the check of queries and for the OpenAPI document.
package param

import "github.com/mindcoordinator/mind/gateway/openapi"

// Parameters that endpoints of several packages share.
var (
	Consistency = openapi.Parameter{
		Name: "consistency", Text: "linearizable (default), or stale: one coordinator answers from its own state",
		Schema: openapi.Object{"enum": []string{"linearizable", "stale"}},
	}
	// Read are the parameters of most endpoints that change nothing.
	Read = []openapi.Parameter{Consistency}
	// Ticket is the credential of an event stream that is opened where no header can be set.
	Ticket    = Text("ticket", "of POST /v1/stream-tickets, instead of the header Authorization; valid once")
	PageToken = Text("page_token", "next_page_token of the previous page")
)

// MostInt32 is the largest number that a parameter may have where nothing smaller is said.
const MostInt32 = 1<<31 - 1

// Text returns a parameter that takes any text.
func Text(name, says string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.Text}
}

// Texts returns a parameter that may be repeated.
func Texts(name, says string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.List(openapi.Text)}
}

// OneOf returns a parameter that takes one of some texts.
func OneOf(name, says string, allowed []string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.Object{"enum": allowed}}
}

// Number returns a parameter that takes a whole number.
func Number(name, says string, from, to int) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.Integer(from, to)}
}

// Flag returns a parameter that takes true or false.
func Flag(name, says string) openapi.Parameter {
	return openapi.Parameter{Name: name, Text: says, Schema: openapi.Object{"type": "boolean"}}
}
