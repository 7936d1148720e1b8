package stepio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/store"
)

// typeJSON is what checkpoints and final answers are.
const typeJSON = "application/json"

// Pack takes checkpoint and final answer out of a response: small ones lie in the run
// itself, larger ones go into the blob store, byte for byte. Null stands for absent. A
// checkpoint that is given by reference must be an object of the run that is there.
// Packing the same response again gives the same. Errors: [domain.InvalidError],
// [ErrNoStore], and those of a store that cannot be used just now.
func Pack(ctx context.Context, st *store.Store, tenant, runID string, resp run.StepResponse) (run.StepResponse, *run.Content, *run.Content, error) {
	resp = run.Normal(resp)
	fail := func(err error) (run.StepResponse, *run.Content, *run.Content, error) { return resp, nil, nil, err }
	if err := checkContents(resp); err != nil {
		return fail(err)
	}
	var checkpoint, final *run.Content
	var err error
	if resp.CheckpointRef != nil {
		checkpoint, err = referred(ctx, st, tenant, runID, *resp.CheckpointRef)
	} else {
		checkpoint, err = Put(ctx, st, tenant, runID, resp.Checkpoint)
	}
	if err != nil {
		return fail(at("checkpoint", err))
	}
	if final, err = Put(ctx, st, tenant, runID, resp.Final); err != nil {
		return fail(at("final", err))
	}
	resp.Checkpoint, resp.CheckpointRef, resp.Final = nil, nil, nil
	return resp, checkpoint, final, nil
}

// at says which content an error is about, unless it says so itself.
func at(field string, err error) error {
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("%s: %w", field, err)
}

// checkContents checks what the run cannot: it does not see what lies in the store.
func checkContents(resp run.StepResponse) error {
	if len(resp.Checkpoint) > 0 && resp.CheckpointRef != nil {
		return domain.Invalid("checkpointRef", "must be absent when checkpoint is given")
	}
	for _, c := range []struct {
		field string
		data  json.RawMessage
		limit int
	}{{"checkpoint", resp.Checkpoint, run.MaxCheckpoint}, {"final", resp.Final, run.MaxFinal}} {
		switch {
		case len(c.data) > c.limit:
			return domain.Invalid(c.field, "must be at most %d bytes, it has %d", c.limit, len(c.data))
		case len(c.data) > 0 && (!utf8.Valid(c.data) || !json.Valid(c.data)):
			return domain.Invalid(c.field, "must be valid JSON")
		}
	}
	return nil
}

// Put keeps bytes of a run: as they are up to [run.MaxInline], else in the blob store.
// No bytes give nil. Errors: [ErrNoStore], and those of a store that cannot be written
// just now.
func Put(ctx context.Context, st *store.Store, tenant, runID string, data []byte) (*run.Content, error) {
	switch {
	case len(data) == 0:
		return nil, nil
	case len(data) <= run.MaxInline:
		return run.Inline(data, typeJSON), nil
	case st == nil:
		return nil, ErrNoStore
	}
	ref, err := st.PutBytes(ctx, RunKey(tenant, runID), data, typeJSON)
	if err != nil {
		return nil, err
	}
	return &run.Content{Ref: ref.Ref, Hash: ref.Hash, Bytes: ref.Bytes, ContentType: typeJSON}, nil
}

// referred takes a checkpoint by its reference.
func referred(ctx context.Context, st *store.Store, tenant, runID string, ref run.ContentRef) (*run.Content, error) {
	const field = "checkpointRef"
	switch {
	case !ofRun(ref.Ref, tenant, runID):
		return nil, domain.Invalid(field, "must be a reference to an object of the run itself in the blob store")
	case st == nil:
		return nil, ErrNoStore
	}
	info, err := st.Stat(ctx, ref.Ref)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, domain.Invalid(field, "must be there: the blob store has no such object")
	case err != nil:
		return nil, err
	case info.Bytes > run.MaxCheckpoint:
		return nil, domain.Invalid("checkpoint", "must be at most %d bytes, it has %d", run.MaxCheckpoint, info.Bytes)
	case ref.Bytes != 0 && ref.Bytes != info.Bytes:
		return nil, domain.Invalid(field+".bytes", "must be the %d bytes that the object has, it is %d", info.Bytes, ref.Bytes)
	}
	data, err := st.Get(ctx, ref.Ref, ref.Hash)
	switch {
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrRef):
		return nil, domain.Invalid(field+".hash", "must be the sha-256 of the object")
	case err != nil:
		return nil, err
	case !utf8.Valid(data) || !json.Valid(data):
		return nil, domain.Invalid("checkpoint", "must be valid JSON")
	}
	return &run.Content{Ref: ref.Ref, Hash: run.Hash(data), Bytes: info.Bytes, ContentType: typeJSON}, nil
}
