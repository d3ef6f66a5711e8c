package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Text is bytes as JSON has them: a string, or {"base64": "…"} for what is not
// UTF-8.
type Text string

// errText says what a Text is not.
var errText = errors.New(`a string, or {"base64": "…"}, is expected`)

// UnmarshalJSON reads either form.
func (t *Text) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text(s)
		return nil
	}
	fields, err := members(b)
	if err != nil || len(fields) != 1 || fields[0].name != "base64" {
		return errText
	}
	var raw []byte
	if len(fields[0].value) == 0 || fields[0].value[0] != '"' || json.Unmarshal(fields[0].value, &raw) != nil {
		return errText
	}
	*t = Text(raw)
	return nil
}

// MarshalJSON writes the form that keeps every byte.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// Encodings of bytes in a message.
const (
	EncodingText   = "text"
	EncodingBase64 = "base64"
)

// Encode turns bytes into what a message carries. In a text, bytes that are not
// UTF-8 are U+FFFD.
func Encode(b []byte, encoding string) string {
	if encoding == EncodingBase64 {
		return base64.StdEncoding.EncodeToString(b)
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

// Whole is how much of b can be sent as text now: an incomplete sequence at
// its end waits for its rest. What can never become one is not held back.
func Whole(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		c := b[len(b)-back]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}
