package stepio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
)

// ErrNoStore says that there is no blob store to read from or to write to.
var ErrNoStore = errors.New("there is no blob store")

// The codes of errors that stand beside a result whose content cannot be given.
const (
	CodeResultMissing = "RESULT_MISSING"
	CodeResultCorrupt = "RESULT_CORRUPT"
)

// Fill gives a step with the contents that its runtime is to have: the checkpoint byte
// for byte, and of the results what fits; see [Results]. A nil store does for a step
// whose contents are all inline. Errors: [ErrNoStore], those of [Checkpoint], and those
// of a store that cannot be read just now.
func Fill(ctx context.Context, st *store.Store, tenant string, req run.StepRequest, checkpoint *run.Content) (run.StepRequest, error) {
	req, err := Results(ctx, st, tenant, req)
	if err != nil {
		return req, err
	}
	data, err := Checkpoint(ctx, st, checkpoint)
	if err != nil {
		return req, err
	}
	req.Checkpoint, req.CheckpointRef = data, nil
	return req, nil
}

// FillByReference is [Fill] with a checkpoint that is named when it does not lie in the
// run itself, for ways that a large one does not fit through.
func FillByReference(ctx context.Context, st *store.Store, tenant string, req run.StepRequest, checkpoint *run.Content) (run.StepRequest, error) {
	if checkpoint.Empty() || len(checkpoint.Data) > 0 {
		return Fill(ctx, st, tenant, req, checkpoint)
	}
	req, err := Results(ctx, st, tenant, req)
	req.Checkpoint, req.CheckpointRef = nil, &run.ContentRef{Ref: checkpoint.Ref, Hash: checkpoint.Hash, Bytes: checkpoint.Bytes}
	return req, err
}

// Checkpoint reads content, wherever it lies, and holds it against its hash. None gives
// nil. Errors: [ErrNoStore]; [store.ErrNotFound] and [store.ErrCorrupt], for which no
// repeat helps; those of a store that cannot be read just now.
func Checkpoint(ctx context.Context, st *store.Store, c *run.Content) (json.RawMessage, error) {
	switch {
	case c.Empty():
		return nil, nil
	case len(c.Data) > 0:
		if c.Hash != "" && run.Hash(c.Data) != c.Hash {
			return nil, fmt.Errorf("content: %w", &store.CorruptError{Wanted: c.Hash, Found: run.Hash(c.Data), Bytes: int64(len(c.Data))})
		}
		return c.Data, nil
	case st == nil:
		return nil, fmt.Errorf("content %s: %w", c.Ref, ErrNoStore)
	}
	b, err := st.Get(ctx, c.Ref, c.Hash)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return b, nil
}

// Results reads the results of a step. One of at most [run.MaxInlineResult] bytes is
// given whole while all together have at most [run.MaxInlineResults], a text that is no
// JSON as a JSON string. Of any other one the beginning is given and that it is
// truncated. A result that lies outside of the blob store has its reference alone; one
// that is not there any more or is damaged has an error beside it, since waiting would
// not bring it back. The request itself is not changed.
func Results(ctx context.Context, st *store.Store, tenant string, req run.StepRequest) (run.StepRequest, error) {
	results := make([]run.Result, len(req.Results))
	room := run.MaxInlineResults
	for i, res := range req.Results {
		if len(res.Result) == 0 && res.State == run.CallSucceeded && ofCall(res.ResultRef, tenant, res.TaskID) {
			var err error
			if res, err = read(ctx, st, res, room); err != nil {
				return req, fmt.Errorf("result of call %s: %w", res.ToolCallID, err)
			}
		}
		room -= len(res.Result)
		results[i] = res
	}
	req.Results = results
	return req, nil
}

// read gives a result its content, or the beginning of it.
func read(ctx context.Context, st *store.Store, res run.Result, room int) (run.Result, error) {
	if st == nil {
		return res, ErrNoStore
	}
	data, total, err := st.Range(ctx, res.ResultRef, res.ResultHash, 0, run.MaxInlineResult)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return unreadable(res, CodeResultMissing, "the result is not in the blob store any more"), nil
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrRef):
		return unreadable(res, CodeResultCorrupt, "the stored result is not what the task recorded"), nil
	case err != nil:
		return res, err
	}
	res.Bytes = total
	if total <= int64(len(data)) {
		if content, ok := Inline(data); ok && len(content) <= room {
			res.Result = content
			return res, nil
		}
	}
	res.Truncated, res.Preview = true, Preview(data)
	return res, nil
}

// unreadable marks a result; its call has succeeded all the same.
func unreadable(res run.Result, code, message string) run.Result {
	res.Truncated = true
	res.Error = &domain.TaskError{Code: code, Class: domain.ClassSystem, Message: message}
	return res
}

// Inline gives content as JSON: itself, or a text as a JSON string. False means that it
// is neither.
func Inline(data []byte) (json.RawMessage, bool) {
	if !utf8.Valid(data) {
		return nil, false
	}
	if json.Valid(data) {
		return data, true
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(string(data)); err != nil {
		return nil, false
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), true
}

// Preview is the beginning of content as valid UTF-8 of at most [run.MaxPreview] bytes.
// Bytes that are no text are replaced by U+FFFD.
func Preview(data []byte) string {
	cut := len(data) > run.MaxPreview
	if cut {
		data = data[:run.MaxPreview]
	}
	// A character that the cut, or the reading before it, has split is left out.
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				data = data[:len(data)-n]
			}
			break
		}
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	for len(text) > run.MaxPreview {
		// The replacement is longer than what it stands for.
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
