package cores

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/types/known/structpb"
)

// matches says why a value is not of a JSON Schema. A schema refers to nothing outside of itself.
func matches(schema []byte, value *structpb.Value) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("the schema is no JSON: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothing{})
	if err := compiler.AddResource("schema.json", doc); err != nil {
		return fmt.Errorf("the schema is not valid: %w", err)
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		return fmt.Errorf("the schema is not valid: %w", err)
	}
	raw, err := value.MarshalJSON()
	if err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	if err := compiled.Validate(answer); err != nil {
		_, plain, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("%s", strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(plain), "\n", ";"), "- "))
	}
	return nil
}

// nothing loads no other schemas: a program must not make the coordinator read files or addresses.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema may not refer to %s", url)
}
