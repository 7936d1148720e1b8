package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON pointer (RFC 6901), taken apart. None is empty: the whole of an answer is no
// part of a job.
type pointer []string

func parsePointer(s string) (pointer, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("%q must be a JSON pointer such as /job/state (RFC 6901)", s)
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(t), "~") {
			return nil, fmt.Errorf("%q must have ~0 for a tilde and ~1 for a slash in a name (RFC 6901)", s)
		}
		// In this order, or ~01 would become a slash (section 4).
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// document is a JSON text that is looked into several times. Its first level is taken apart once.
type document struct {
	raw    json.RawMessage
	fields map[string]json.RawMessage
}

var errNoJSON = errors.New("is not a JSON object")

// parseDocument accepts an object.
func parseDocument(raw []byte) (document, error) {
	d := document{raw: raw}
	if err := json.Unmarshal(raw, &d.fields); err != nil || d.fields == nil {
		return document{}, errNoJSON
	}
	return d, nil
}

// at gives the bytes of a value as they are written. False is a miss: nothing is there.
func (d document) at(p pointer) (json.RawMessage, bool) {
	value, ok := d.fields[p[0]]
	for _, token := range p[1:] {
		if !ok {
			break
		}
		value, ok = child(value, token)
	}
	return value, ok
}

// child follows one token of a pointer (RFC 6901, section 4).
func child(raw json.RawMessage, token string) (json.RawMessage, bool) {
	switch kind(raw) {
	case '{':
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return nil, false
		}
		value, ok := fields[token]
		return value, ok
	case '[':
		i, err := strconv.Atoi(token)
		if err != nil || strconv.Itoa(i) != token { // no leading zeros, no sign
			return nil, false
		}
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil || i < 0 || i >= len(items) {
			return nil, false
		}
		return items[i], true
	}
	return nil, false
}

// kind is the first character of a JSON value, which tells what it is.
func kind(raw json.RawMessage) byte {
	s := strings.TrimLeft(string(raw[:min(len(raw), 64)]), " \t\r\n")
	if s == "" {
		return 0
	}
	return s[0]
}

// scalar is the text of a string, a number or a boolean; empty for anything else.
func scalar(raw json.RawMessage) string {
	switch kind(raw) {
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s) // a miss when it is none
		return s
	case 0, '{', '[', 'n':
		return ""
	}
	return strings.TrimSpace(string(raw))
}
