package unit

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Text is a string of which nothing is known where it is empty: JSON has it as
// null then, so that nobody takes it for an answer.
type Text string

// MarshalJSON makes null of an empty text.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // whoever wants that does it to what this returns
	err := e.Encode(string(t))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Number is a number of which nothing is known where it is 0: JSON has it as
// null then.
type Number int

// MarshalJSON makes null of 0.
func (n Number) MarshalJSON() ([]byte, error) {
	if n == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}
