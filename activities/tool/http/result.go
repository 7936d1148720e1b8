package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// maxInline is how large a JSON result may be that lies in a handle or an observation, in bytes, as
// the contract bounds inline results.
const maxInline = 64 << 10

const (
	typeJSON  = "application/json"
	typeText  = "text/plain; charset=utf-8"
	typeBytes = "application/octet-stream"
)

// content is a body of which the beginning was read.
type content struct {
	head []byte
	// whole says that head is all there is; else rest goes on.
	whole bool
	rest  io.Reader
}

// begin reads up to limit bytes of a body that may have at most most.
func (a *answer) begin(limit, most int64) (content, error) {
	r, err := a.body(most)
	if err != nil {
		return content{}, err
	}
	head, err := io.ReadAll(io.LimitReader(r, limit+1))
	return content{head: head, whole: int64(len(head)) <= limit, rest: r}, err
}

// takeBody makes a result of a body. A failure is definite: the job is over and its result cannot
// be had. An error is not.
func (e *Executor) takeBody(ctx context.Context, d handleData, c content, contentType string) (*tool.Result, *tool.Failure, error) {
	declared := mediaType(contentType)
	if c.whole {
		if len(bytes.TrimSpace(c.head)) == 0 {
			return nullResult(), nil, nil
		}
		text, ok := clean(c.head)
		switch {
		case isJSON(declared) && !ok:
			// A body that was cut where its length could not tell looks like this.
			return nil, nil, errors.New("the body is declared as JSON and is not JSON in UTF-8")
		case ok && (declared == "" || isJSON(declared)):
			return e.takeJSON(ctx, d, text)
		}
	}
	if declared == "" {
		declared = sniff(c)
	}
	var r io.Reader = bytes.NewReader(c.head)
	if !c.whole {
		r = io.MultiReader(r, c.rest)
	}
	return e.put(ctx, d, r, declared)
}

// takeJSON makes a result of a JSON value. An inline one is spelled as it will be after every
// further writing, so that its bytes, and with them its hash, stay the same.
func (e *Executor) takeJSON(ctx context.Context, d handleData, value json.RawMessage) (*tool.Result, *tool.Failure, error) {
	if int64(len(value)) > e.cfg.MaxResultBytes {
		return nil, e.tooLarge(), nil
	}
	if len(value) <= maxInline {
		spelled, err := json.Marshal(value)
		if err != nil {
			return nil, nil, err
		}
		if len(spelled) <= maxInline {
			return &tool.Result{Inline: spelled, ContentType: typeJSON, Bytes: int64(len(spelled))}, nil, nil
		}
	}
	return e.put(ctx, d, bytes.NewReader(value), typeJSON)
}

func nullResult() *tool.Result {
	return &tool.Result{Inline: json.RawMessage("null"), ContentType: typeJSON, Bytes: 4}
}

func (e *Executor) put(ctx context.Context, d handleData, r io.Reader, contentType string) (*tool.Result, *tool.Failure, error) {
	key, err := d.owner()
	if err != nil {
		return nil, nil, err
	}
	ref, err := e.cfg.Store.Put(ctx, key, r, contentType)
	if errors.Is(err, errTooLarge) {
		return nil, e.tooLarge(), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the result could not be stored: %w", err)
	}
	return &tool.Result{Ref: ref.Ref, Hash: ref.Hash, ContentType: ref.ContentType, Bytes: ref.Bytes}, nil, nil
}

func (e *Executor) tooLarge() *tool.Failure {
	return failure(CodeResultTooLarge, fmt.Sprintf("the result has more than the %d bytes that are allowed", e.cfg.MaxResultBytes), tool.ClassThirdParty, false)
}

// mediaType is a content type in one spelling; empty is none that can be used.
func mediaType(value string) string {
	kind, params, err := mime.ParseMediaType(value)
	if err != nil || len(value) > 256 || !strings.Contains(kind, "/") {
		return ""
	}
	return mime.FormatMediaType(kind, params)
}

// isJSON follows RFC 8259 and the suffix of RFC 6839, section 3.1.
func isJSON(media string) bool {
	kind, _, _ := strings.Cut(media, ";")
	return kind == typeJSON || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// sniff finds out what a body without a type is, by its beginning.
func sniff(c content) string {
	head := c.head
	if slices.Contains(head, 0) {
		return typeBytes
	}
	for n := 0; !c.whole && n < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); n++ {
		head = head[:len(head)-1] // the last character may be cut
	}
	if utf8.Valid(head) {
		return typeText
	}
	return typeBytes
}
