package starter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.temporal.io/api/enums/v1"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
)

// checkCache prepares a submission to be answered from the cache of its tool. An
// input without a canonical form is left to run on its own.
func (c *Client) checkCache(r *request) error {
	text, ok := canonical(r.sub.Input)
	if !ok {
		return nil
	}
	if len(c.o.Secret) == 0 {
		return domain.Invalid("noCache", "must be set: tool %s has a cache, and this client was given no secret of the installation", r.tool.Name)
	}
	r.canonical = string(text)
	var err error
	// Inputs of one canonical form are one submission, however they were written.
	r.fingerprint, err = domain.Fingerprint(r.tool.Name, text)
	return err
}

// canonical gives the canonical form of RFC 8785. It is false for what the RFC
// excludes (section 3.1, by way of I-JSON): repeated members, text that is not
// Unicode, numbers that a double cannot hold. Two such inputs could get one form
// and one answer.
func canonical(input json.RawMessage) (json.RawMessage, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(input))
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || tok.Kind() == '0' && !exact(tok.String()) {
			return nil, false
		}
	}
	v := jsontext.Value(bytes.Clone(input))
	if err := v.Canonicalize(); err != nil {
		return nil, false
	}
	return json.RawMessage(v), true
}

// exact tells whether a number means the same to everybody who reads it as a
// double. Of whole numbers that is so up to 2^53-1 (RFC 7493, section 2.2).
func exact(number string) bool {
	const most = 1<<53 - 1
	if !strings.ContainsAny(number, ".eE") {
		n, err := strconv.ParseInt(number, 10, 64)
		return err == nil && n >= -most && n <= most
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// submitCached answers with the task of an equal call, or starts one. The id of
// the one that would be started is the same for everybody who looks at the same
// time, and the engine lets only one of them start it.
func (c *Client) submitCached(ctx context.Context, r request) (Submitted, error) {
	for lap := 0; ; lap++ {
		hit, next, err := c.lookUp(ctx, r)
		if err != nil {
			return Submitted{}, engineError(ctx, "look for an equal call of "+r.tool.Name, err)
		}
		if hit != nil {
			r.create.ID = hit.taskID
			out, err := c.join(ctx, r, *hit)
			out.Cached = true
			return out, err
		}
		r.create.ID = next
		out, started, err := c.launch(ctx, r)
		switch {
		case started || err != nil:
			return out, err
		case lap == maxLaps:
			return Submitted{}, fail(CodeUnavailable, "repeat the call", "equal calls of %s start and end too fast to be joined", r.tool.Name)
		}
		// Somebody was faster, or the answer of this very start was lost.
	}
}

// lookUp finds the task that answers a call, or says which one would be next. The
// bucket before counts too: its last results may be younger than the lifetime.
func (c *Client) lookUp(ctx context.Context, r request) (hit *found, next string, err error) {
	ttl := r.tool.Cache.TTL.Milliseconds()
	now := c.o.Now()
	key := domain.CacheKey{Tenant: c.o.Tenant, Tool: r.tool.Name, Version: r.tool.Version, Input: r.canonical, Bucket: now / max(ttl, 1)}
	chain := cacheChain{c: c, key: key, ttl: r.tool.Cache.TTL}
	hit, last, err := chain.newest(ctx)
	if hit != nil || err != nil {
		return hit, "", err
	}
	next = chain.id(last + 1)
	chain.key.Bucket--
	hit, _, err = chain.newest(ctx)
	return hit, next, err
}

// cacheChain are the tasks of one key: each was started because the one before
// did not answer any more.
type cacheChain struct {
	c   *Client
	key domain.CacheKey
	ttl time.Duration
}

func (ch cacheChain) id(generation int) string {
	return domain.CacheID(ch.c.o.Secret, ch.key, generation)
}

// newest gives the task that answers, if one does, and the last generation that
// is there, 0 for none. Most chains have one link; the end of a long one, of a
// tool that keeps failing, is found in steps that double and then halve.
func (ch cacheChain) newest(ctx context.Context) (hit *found, last int, err error) {
	f, err := ch.look(ctx, 1)
	switch {
	case err != nil || f == nil:
		return nil, 0, err
	}
	if yes, err := ch.answers(ctx, f); yes || err != nil {
		return f, 1, err
	}
	low, high := 1, 2
	for ; ; high *= 2 {
		next, err := ch.look(ctx, high)
		if err != nil {
			return nil, 0, err
		}
		if next == nil {
			break
		}
		low, f = high, next
	}
	for high-low > 1 {
		mid := low + (high-low)/2
		next, err := ch.look(ctx, mid)
		switch {
		case err != nil:
			return nil, 0, err
		case next != nil:
			low, f = mid, next
		default:
			high = mid
		}
	}
	if low > 1 {
		if yes, err := ch.answers(ctx, f); yes || err != nil {
			return f, low, err
		}
	}
	return nil, low, nil
}

// look asks the engine for one generation; nil is none.
func (ch cacheChain) look(ctx context.Context, generation int) (*found, error) {
	id := ch.id(generation)
	d, err := ch.c.engine.DescribeWorkflow(ctx, ch.c.workflowID(id), "")
	switch {
	case err != nil && notFound(err):
		return nil, nil //nolint:nilnil // that there is none is an answer
	case err != nil:
		return nil, err
	}
	return &found{taskID: id, described: d}, nil
}

// answers tells whether a task answers an equal call: it is open and nobody gave
// it up, or it succeeded and its result is young enough and still there. A task
// that failed, expired or was cancelled never does. The error is that of a result
// which cannot be read now: it may well answer, and the work is not done again for that.
func (ch cacheChain) answers(ctx context.Context, f *found) (bool, error) {
	open := false
	switch f.described.Status {
	case enums.WORKFLOW_EXECUTION_STATUS_RUNNING, enums.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		open = true
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
	default:
		return false, nil
	}
	if !ch.c.tells(ctx, f) {
		// Nobody says how it stands. If it is open it is at least there, and a second
		// task would have no worker either.
		if open || slices.Contains(noRecord, CodeOf(f.err)) {
			return open, nil
		}
		return false, f.err
	}
	t := f.s.desc.Task
	if !t.State.Terminal() {
		return t.Cancel == nil, nil
	}
	age := ch.c.o.Now() - t.EndedAtMs
	return t.State == domain.StateSucceeded && age < ch.ttl.Milliseconds() && (t.ResultTTLMs == 0 || age < t.ResultTTLMs) && ch.c.holds(ctx, t), nil
}

// noRecord are the codes of tasks whose record will not be there later either.
var noRecord = []Code{CodeUnknownTask, CodeTerminated, CodeInternal}

// holds tells whether the result can still be had, as far as can be known here.
func (c *Client) holds(ctx context.Context, t domain.Task) bool {
	r := c.resultAt(t, t.ResultRef, t.ResultHash)
	if r.Outside || r.store == nil {
		return true
	}
	_, err := r.store.Stat(ctx, r.Ref)
	return !errors.Is(err, store.ErrNotFound)
}
