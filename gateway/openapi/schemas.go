package openapi

var (
	// Text is the schema of any text.
	Text = Object{"type": "string"}
	// Anything is the schema of any object.
	Anything = Object{"type": "object"}
)

// Integer returns the schema of the whole numbers in a range.
func Integer(from, to int) Object {
	return Object{"type": "integer", "minimum": from, "maximum": to}
}

// List returns the schema of a list.
func List(of Object) Object { return Object{"type": "array", "items": of} }
