package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/store"
)

// maxSniff is how much of a result is looked at to find its type, in bytes. A larger JSON is called
// text or bytes, unless its type is declared: being JSON is a property of the whole.
const maxSniff = 8 << 20

// The content types that are found out.
const (
	typeJSON  = "application/json"
	typeText  = "text/plain; charset=utf-8"
	typeBytes = "application/octet-stream"
)

// stored is stored.json.
type stored struct {
	Version int         `json:"version"`
	Result  tool.Result `json:"result"`
}

// succeed stores the result, unless it is there already, and completes the observation. An error
// means that it could not be stored now; the next look tries again.
func (e *Executor) succeed(ctx context.Context, j job, v view, obs tool.Observation) (tool.Observation, error) {
	obs.State = tool.StateSucceeded
	var had stored
	if found, err := readJSON(j.file(storedFile), &had); err == nil && found {
		switch _, err := e.cfg.Store.Stat(ctx, had.Result.Ref); {
		case err == nil:
			obs.Result = &had.Result
			return obs, nil
		case !errors.Is(err, store.ErrNotFound):
			return tool.Observation{}, err
		}
	}
	src, fail, err := e.openResult(j, v.status)
	if err != nil {
		return tool.Observation{}, err
	}
	if fail != nil {
		obs.State, obs.Error = tool.StateFailed, fail
		return obs, nil
	}
	defer src.close()
	contentType, err := e.contentType(src)
	if err != nil {
		return tool.Observation{}, err
	}
	ref, err := e.cfg.Store.Put(ctx, store.Key{Tenant: v.request.Tenant, TaskID: v.request.TaskID}, src.reader, contentType)
	if err != nil {
		return tool.Observation{}, err
	}
	obs.Result = &tool.Result{Ref: ref.Ref, Hash: ref.Hash, ContentType: ref.ContentType, Bytes: ref.Bytes, Truncated: src.truncated}
	return obs, writeJSON(j.file(storedFile), stored{Version: layoutVersion, Result: *obs.Result}, false)
}

// resultSource is a result to be stored: a file, or the pieces of stdout.
type resultSource struct {
	reader    io.Reader
	size      int64
	truncated bool
	files     []*os.File
}

func (s *resultSource) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
}

// openResult opens what the tool left as its result: its result file, else its stdout. A failure
// is definite, an error is not.
func (e *Executor) openResult(j job, st status) (*resultSource, *tool.Failure, error) {
	there, err := exists(j.file(resultFile))
	if err != nil {
		return nil, nil, err
	}
	if there {
		return e.openResultFile(j.file(resultFile))
	}
	if st.Stdout.Error != "" {
		return nil, failure(CodeOutputLost, "the tool's output could not be kept: "+st.Stdout.Error, tool.ClassSystem, true), nil
	}
	return e.openStdout(j, st)
}

// openResultFile refuses what is no plain file: the tool may have put anything there, and opening a
// pipe would wait for ever.
func (e *Executor) openResultFile(path string) (*resultSource, *tool.Failure, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, os.ErrPermission) {
		return nil, failure(CodeResultUnusable, "the result file must be a plain, readable file", tool.ClassThirdParty, false), nil
	}
	if err != nil {
		return nil, nil, err
	}
	src := &resultSource{reader: f, files: []*os.File{f}}
	info, err := f.Stat()
	if err != nil {
		src.close()
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		src.close()
		return nil, failure(CodeResultUnusable, "the result file must be a plain, readable file", tool.ClassThirdParty, false), nil
	}
	src.size = info.Size()
	if fail := e.tooLarge(src.size); fail != nil {
		src.close()
		return nil, fail, nil
	}
	return src, nil, nil
}

// openStdout strings the kept pieces of stdout together, with a visible mark in the gap.
func (e *Executor) openStdout(j job, st status) (*resultSource, *tool.Failure, error) {
	pieces, err := logPieces(j.dir(), tool.StreamStdout)
	if err != nil {
		return nil, nil, err
	}
	src := &resultSource{truncated: st.Stdout.Truncated}
	var readers []io.Reader
	next := int64(0)
	for _, p := range pieces {
		if p.offset > next {
			mark := fmt.Sprintf("\n[wakepoint: %d bytes of output were not kept]\n", p.offset-next)
			readers = append(readers, strings.NewReader(mark))
			src.size += int64(len(mark))
		}
		f, err := os.Open(p.path)
		if err != nil {
			src.close()
			return nil, nil, err
		}
		src.files = append(src.files, f)
		readers = append(readers, f)
		src.size += p.size
		next = p.offset + p.size
	}
	if fail := e.tooLarge(src.size); fail != nil {
		src.close()
		return nil, fail, nil
	}
	src.reader = io.MultiReader(readers...)
	return src, nil, nil
}

func (e *Executor) tooLarge(size int64) *tool.Failure {
	if size <= e.cfg.MaxResultBytes {
		return nil
	}
	return failure(CodeResultTooLarge, fmt.Sprintf("the result has %d bytes, and at most %d are allowed", size, e.cfg.MaxResultBytes), tool.ClassThirdParty, false)
}

// contentType finds out what a result is. What it reads it puts back.
func (e *Executor) contentType(src *resultSource) (string, error) {
	if e.cfg.ResultContentType != "" {
		return e.cfg.ResultContentType, nil
	}
	head := make([]byte, min(src.size, maxSniff))
	n, err := io.ReadFull(src.reader, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	head = head[:n]
	if f, ok := src.reader.(io.Seeker); ok { // a file, which the store can then read twice by itself
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	} else {
		src.reader = io.MultiReader(bytes.NewReader(head), src.reader)
	}
	switch {
	case src.size <= maxSniff && json.Valid(head):
		return typeJSON, nil
	case isText(head, src.size > int64(n)):
		return typeText, nil
	}
	return typeBytes, nil
}

// isText reports whether data is UTF-8 without zero bytes. The last character may be cut.
func isText(data []byte, cut bool) bool {
	if slices.Contains(data, 0) {
		return false
	}
	for n := 0; cut && n < utf8.UTFMax && len(data) > 0; n++ {
		if utf8.Valid(data) {
			return true
		}
		data = data[:len(data)-1]
	}
	return utf8.Valid(data)
}

// Logs reads what the tool wrote, while it runs and afterwards. stdout is without control lines.
func (e *Executor) Logs(_ context.Context, h tool.Handle, stream string, offset int64, limit int) (tool.LogChunk, error) {
	const defaultLimit, maxLimit = 64 << 10, 1 << 20
	j, data, err := e.resolve(h)
	if err != nil {
		return tool.LogChunk{}, fmt.Errorf("logs: %w", err)
	}
	if stream != tool.StreamStdout && stream != tool.StreamStderr {
		return tool.LogChunk{}, fmt.Errorf("logs: %w: %q must be %q or %q", tool.ErrStream, stream, tool.StreamStdout, tool.StreamStderr)
	}
	if offset < 0 {
		return tool.LogChunk{}, fmt.Errorf("logs: offset %d must not be negative", offset)
	}
	if limit <= 0 {
		limit = defaultLimit
	}
	// Looked at first: what is over writes no more.
	v, err := e.look(j)
	if err == nil && v.phase == phaseAbsent {
		err = tool.ErrUnknownHandle
	}
	if err != nil {
		return tool.LogChunk{}, fmt.Errorf("logs of %q: %w", data.SubmissionKey, err)
	}
	chunk, atEnd, err := readLog(j.dir(), stream, offset, min(limit, maxLimit))
	if err != nil {
		return tool.LogChunk{}, fmt.Errorf("logs of %q: %w", data.SubmissionKey, err)
	}
	chunk.End = atEnd && (v.phase == phaseOver || v.phase == phaseLost)
	return chunk, nil
}

// logTail is the end of a stream in at most limit bytes, beginning with a whole line if there is
// more than one.
func logTail(dir, stream string, limit int) ([]byte, error) {
	pieces, err := logPieces(dir, stream)
	if err != nil || len(pieces) == 0 {
		return nil, err
	}
	last := pieces[len(pieces)-1]
	chunk, _, err := readLog(dir, stream, max(0, last.offset+last.size-int64(limit)), limit)
	if _, whole, ok := bytes.Cut(chunk.Data, []byte("\n")); ok && chunk.Offset > 0 && len(whole) > 0 {
		return whole, err
	}
	return chunk.Data, err
}
