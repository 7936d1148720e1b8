package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// EncodeResponse gives the JSON of a step's answer with the bytes of its checkpoint and
// of its final answer as they are; see [EncodeRequest].
func EncodeResponse(resp StepResponse) ([]byte, error) {
	resp = Normal(resp)
	checkpoint, final := resp.Checkpoint, resp.Final
	for _, c := range []json.RawMessage{checkpoint, final} {
		if len(c) > 0 && !json.Valid(c) {
			return nil, errors.New("encode step: the checkpoint or the final answer is no JSON")
		}
	}
	resp.Checkpoint, resp.Final = nil, nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(resp); err != nil {
		return nil, fmt.Errorf("encode step: %w", err)
	}
	out := bytes.TrimSuffix(bytes.TrimSpace(b.Bytes()), []byte("}"))
	for _, m := range []struct {
		name string
		data json.RawMessage
	}{{"checkpoint", checkpoint}, {"final", final}} {
		if len(m.data) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `"`+m.name+`":`...), m.data...)
	}
	return append(out, '}'), nil
}
