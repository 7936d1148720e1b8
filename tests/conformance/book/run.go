package book

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/wakepoint/wakepoint/domain"
)

// Conversation is one recorded conversation.
type Conversation struct {
	Name string `json:"name"`
	Ops  []Op   `json:"ops"`
}

// maxLine is the longest conversation that is read, in bytes.
const maxLine = 64 << 20

// Read gives the conversations of a file, plain or gzipped.
func Read(r io.Reader) ([]Conversation, error) {
	br := bufio.NewReader(r)
	if magic, err := br.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("unzip: %w", err)
		}
		br = bufio.NewReader(zr)
	}
	sc := bufio.NewScanner(br)
	sc.Buffer(nil, maxLine)
	var all []Conversation
	for line := 1; sc.Scan(); line++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var c Conversation
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		all = append(all, c)
	}
	return all, sc.Err()
}

// Check holds a conversation against the book and gives its first difference,
// or "" when every answer is exact.
func Check(c Conversation) string {
	b := New()
	for i, op := range c.Ops {
		got, err := b.Do(op)
		if d := Difference(op.Want, got, err); d != "" {
			return fmt.Sprintf("%s, op %d (%s): %s", c.Name, i, op.Op, d)
		}
	}
	return ""
}

// Difference compares one answer with the one recorded.
func Difference(want json.RawMessage, got any, err error) string {
	answer := map[string]any{"ok": got}
	switch {
	case errors.Is(err, domain.ErrInvalid):
		answer = map[string]any{"error": domain.CodeInvalid}
	case err != nil:
		answer = map[string]any{"error": err.Error()}
	}
	raw, merr := json.Marshal(answer)
	if merr != nil {
		return merr.Error()
	}
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		return "want: " + err.Error()
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return "got: " + err.Error()
	}
	if reflect.DeepEqual(w, g) {
		return ""
	}
	return fmt.Sprintf("\n  want %s\n  got  %s", want, raw)
}
