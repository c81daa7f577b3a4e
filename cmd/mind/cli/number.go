package cli

import (
	"encoding/json"
)

// number is a whole number that may be written as a string, as 64-bit ones sometimes are in JSON.
type number int64

func (n *number) UnmarshalJSON(text []byte) error {
	var v json.Number
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v == "" {
		return nil
	}
	f, err := v.Float64()
	*n = number(f)
	return err
}
