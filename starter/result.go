package starter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
)

// Result is the result of a task that succeeded: where it lies, and the ways to
// read it. What is read has been verified against the hash that the task recorded.
type Result struct {
	TaskID      string `json:"taskId"`
	Ref         string `json:"resultRef"`
	Hash        string `json:"resultHash"`
	ContentType string `json:"contentType,omitempty"`
	// Bytes is its size; 0 when the task does not know it.
	Bytes int64 `json:"bytes,omitempty"`
	// Late marks a result that came after the deadline and was kept.
	Late bool `json:"late,omitempty"`
	// Outside says that it does not lie in the blob store.
	Outside bool `json:"outside,omitempty"`
	// KeptUntilMs is until when it is kept at least, in milliseconds since the epoch.
	KeptUntilMs int64 `json:"keptUntilMs,omitempty"`

	store *store.Store
	now   func() int64
}

// Result finds the result of a task. Errors: unknown-task, not-ended,
// not-succeeded, result-expired, result-missing, terminated, no-worker, unavailable.
func (c *Client) Result(ctx context.Context, taskID string) (*Result, error) {
	s, err := c.read(ctx, taskID)
	if err != nil {
		return nil, err
	}
	t := s.desc.Task
	switch {
	case !s.ended():
		return nil, fail(CodeNotEnded, "wait for its end: wakepoint task watch "+taskID, "task %s %s", taskID, Standing(t.State))
	case t.State != domain.StateSucceeded:
		hint := s.desc.NextStep
		return nil, fail(CodeNotSucceeded, hint, "task %s %s", taskID, Standing(t.State))
	}
	r := c.resultAt(t, t.ResultRef, t.ResultHash)
	r.ContentType, r.Bytes = t.ContentType, t.ResultBytes
	return r, c.present(ctx, r, s)
}

// LateResult finds the result that came after the deadline of an expired task, if
// its tool keeps such results. Errors as of [Client.Result].
func (c *Client) LateResult(ctx context.Context, taskID string) (*Result, error) {
	s, err := c.read(ctx, taskID)
	if err != nil {
		return nil, err
	}
	t := s.desc.Task
	if t.Late == nil {
		return nil, fail(CodeNotSucceeded, "", "task %s has no late result", taskID)
	}
	r := c.resultAt(t, t.Late.ResultRef, t.Late.ResultHash)
	r.Late = true
	return r, c.present(ctx, r, s)
}

// resultAt takes a reference as ours only when it belongs to the task: whoever
// sends callbacks also sends references, and one that led into another task's or
// tenant's folder would show him what is not his.
func (c *Client) resultAt(t domain.Task, ref, hash string) *Result {
	r := &Result{TaskID: t.ID, Ref: ref, Hash: hash, KeptUntilMs: c.keptUntil(t), store: c.o.Store, now: c.o.Now}
	parsed, err := blobref.Parse(ref)
	r.Outside = err != nil || parsed != blobref.Ref{Tenant: c.o.Tenant, TaskID: t.ID, Hash: hash}
	return r
}

// keptUntil is until when what a task left is kept at least; 0 before its end.
func (c *Client) keptUntil(t domain.Task) int64 {
	return t.KeptUntilMs(c.o.Config.ResultTTL.Milliseconds())
}

// present makes sure that the bytes are still there.
func (c *Client) present(ctx context.Context, r *Result, s snapshot) error {
	if r.Outside || r.store == nil {
		return nil
	}
	info, err := r.store.Stat(ctx, r.Ref)
	switch {
	case err == nil:
		r.Bytes = info.Bytes
		return nil
	case errors.Is(err, store.ErrNotFound) && !s.closed():
		return fail(CodeNotEnded, "repeat the call", "the result of task %s is still being stored", r.TaskID).because(err)
	}
	return r.failed(ctx, err)
}

// clockSlack is how far the clock of the worker that sweeps may be ahead of ours.
const clockSlack = 5 * time.Minute

func (r *Result) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound) && r.now() < r.KeptUntilMs-clockSlack.Milliseconds():
		return fail(CodeResultMissing, "check that it is the blob store that the workers use, and whether somebody deleted from it",
			"the blob store lacks the result of task %s, which is kept until %s", r.TaskID, time.UnixMilli(r.KeptUntilMs).UTC().Format(time.RFC3339)).because(err)
	case errors.Is(err, store.ErrNotFound):
		return fail(CodeResultExpired, "run the tool again to get it anew", "the result of task %s is no longer kept", r.TaskID).because(err)
	case errors.Is(err, store.ErrCorrupt):
		return fail(CodeResultCorrupt, "do not use it; check the blob store", "the stored result of task %s is damaged", r.TaskID).because(err)
	case errors.Is(err, store.ErrRange):
		return invalidf("offset", "must lie within the result")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fail(CodeUnavailable, "check the blob store, then repeat", "the result of task %s cannot be read", r.TaskID).because(err)
}

// readable says why the bytes cannot be had from here.
func (r *Result) readable() error {
	switch {
	case r.Outside:
		return fail(CodeResultOutside, "fetch it from where its reference says", "the result of task %s is not in the blob store", r.TaskID)
	case r.store == nil:
		return fail(CodeInternal, "give the client a Store", "this client was given no blob store")
	}
	return nil
}

// Range reads at most length bytes from offset, and says how long the result is.
// Errors: invalid-request, result-expired, result-missing, result-corrupt,
// result-outside, unavailable.
func (r *Result) Range(ctx context.Context, offset, length int64) (data []byte, total int64, err error) {
	if err := r.readable(); err != nil {
		return nil, 0, err
	}
	data, total, err = r.store.Range(ctx, r.Ref, r.Hash, offset, length)
	return data, total, r.failed(ctx, err)
}

// Page reads whole lines of a text from a cursor, see [store.Store.Page]. Errors
// as of [Result.Range].
func (r *Result) Page(ctx context.Context, cursor int64, maxBytes int) (store.Page, error) {
	if err := r.readable(); err != nil {
		return store.Page{}, err
	}
	p, err := r.store.Page(ctx, r.Ref, r.Hash, cursor, maxBytes)
	return p, r.failed(ctx, err)
}

// Open reads the whole result. It is verified before the first byte is given, and
// read in pieces, so that its size does not matter. Errors as of [Result.Range].
func (r *Result) Open(ctx context.Context) (io.ReadCloser, error) {
	first, total, err := r.Range(ctx, 0, openPiece)
	if err != nil {
		return nil, err
	}
	return &resultReader{ctx: ctx, r: r, piece: bytes.NewReader(first), at: int64(len(first)), total: total}, nil
}

// openPiece is how much of a result is in memory while it is read.
const openPiece = 1 << 20

type resultReader struct {
	ctx   context.Context // an io.Reader has nowhere else to get it from
	r     *Result
	piece *bytes.Reader
	at    int64
	total int64
}

// Read gives the next bytes.
func (o *resultReader) Read(p []byte) (int, error) {
	if o.piece.Len() == 0 {
		if o.at >= o.total {
			return 0, io.EOF
		}
		data, _, err := o.r.Range(o.ctx, o.at, openPiece)
		if err != nil {
			return 0, err
		}
		o.piece.Reset(data)
		o.at += int64(len(data))
	}
	return o.piece.Read(p)
}

// Close forgets what is in memory.
func (o *resultReader) Close() error {
	o.piece.Reset(nil)
	o.at = o.total
	return nil
}
