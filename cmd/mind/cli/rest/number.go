package rest

import (
	"encoding/json"
)

// Number is an integer that may be a string in JSON, as some 64-bit numbers are.
type Number int64

func (n *Number) UnmarshalJSON(text []byte) error {
	var v json.Number
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v == "" {
		return nil
	}
	f, err := v.Float64()
	*n = Number(f)
	return err
}
