package exec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// A stream is kept in <stream>.log, its head, and, when it is longer than that, in segments
// <stream>.<offset of its first byte>.log, of which the oldest are deleted. All of them only
// grow, so they can be read while they are written, and an offset means the same byte for ever.
const (
	// tailSegments are kept; each is an eighth of the limit, so that head and tail are half of it
	// each.
	tailSegments   = 4
	segmentDivisor = 8
	// minOutputBytes keeps segments from becoming silly.
	minOutputBytes = 4096
	// offsetDigits makes the names sort by offset.
	offsetDigits = 19
)

func segmentName(stream string, offset int64) string {
	return fmt.Sprintf("%s.%0*d.log", stream, offsetDigits, offset)
}

func headName(stream string) string { return stream + ".log" }

// logWriter writes one stream.
type logWriter struct {
	dir, stream  string
	limit        int64
	onLimit      func() // called once, when more than limit bytes have come
	file         *os.File
	fileEnd      int64 // the offset at which the open file is full
	total        int64
	segments     []int64
	overLimit    bool
	deletedUpTo  int64
	firstFailure error
}

func newLogWriter(dir, stream string, limit int64, onLimit func()) *logWriter {
	return &logWriter{dir: dir, stream: stream, limit: limit, onLimit: onLimit}
}

func (w *logWriter) segmentSize() int64 { return w.limit / segmentDivisor }
func (w *logWriter) headSize() int64    { return w.limit - tailSegments*w.segmentSize() }

// write never fails: a full disk must not stop the tool, which would block on a full pipe. What is
// lost is told by result.
func (w *logWriter) write(p []byte) {
	for len(p) > 0 {
		if w.firstFailure == nil && (w.file == nil || w.total == w.fileEnd) {
			w.firstFailure = w.next()
		}
		n := len(p)
		if w.firstFailure == nil {
			n = int(min(int64(n), w.fileEnd-w.total))
			_, w.firstFailure = w.file.Write(p[:n])
		}
		w.total += int64(n)
		p = p[n:]
	}
	if w.total > w.limit && !w.overLimit {
		w.overLimit = true
		w.onLimit()
	}
}

// next opens the head or a new segment, and deletes the oldest one when there are too many.
func (w *logWriter) next() error {
	name, size := headName(w.stream), w.headSize()
	if w.file != nil {
		if err := w.file.Close(); err != nil {
			return err
		}
		name, size = segmentName(w.stream, w.total), w.segmentSize()
		if len(w.segments) == tailSegments {
			oldest := w.segments[0]
			if err := os.Remove(filepath.Join(w.dir, segmentName(w.stream, oldest))); err != nil {
				return err
			}
			w.segments = w.segments[1:]
			w.deletedUpTo = oldest + w.segmentSize()
		}
		w.segments = append(w.segments, w.total)
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.file, w.fileEnd = f, w.total+size
	return nil
}

func (w *logWriter) close() streamStatus {
	if w.file == nil && w.firstFailure == nil {
		w.firstFailure = w.next() // an empty stream has an empty log
	}
	if w.file != nil {
		if err := w.file.Close(); err != nil && w.firstFailure == nil {
			w.firstFailure = err
		}
	}
	st := streamStatus{Bytes: w.total, Truncated: w.deletedUpTo > 0}
	if w.firstFailure != nil {
		st.Truncated = true
		st.Error = w.firstFailure.Error()
	}
	return st
}

// logPiece is one file of a stream: bytes [offset, offset+size).
type logPiece struct {
	path         string
	offset, size int64
}

// logPieces lists the files of a stream, in order.
func logPieces(dir, stream string) ([]logPiece, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pieces []logPiece
	for _, e := range entries {
		offset := int64(0)
		if e.Name() != headName(stream) {
			digits, ok := strings.CutPrefix(e.Name(), stream+".")
			digits, ok2 := strings.CutSuffix(digits, ".log")
			if !ok || !ok2 || len(digits) != offsetDigits {
				continue
			}
			if offset, err = strconv.ParseInt(digits, 10, 64); err != nil {
				continue
			}
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, logPiece{filepath.Join(dir, e.Name()), offset, info.Size()})
	}
	slices.SortFunc(pieces, func(a, b logPiece) int { return cmp.Compare(a.offset, b.offset) })
	return pieces, nil
}

// readLog reads at most limit bytes from offset, or from the first kept byte after it. End is left
// to the caller to say; atEnd tells that there was no more.
func readLog(dir, stream string, offset int64, limit int) (chunk tool.LogChunk, atEnd bool, err error) {
	for {
		pieces, err := logPieces(dir, stream)
		if err != nil {
			return tool.LogChunk{}, false, err
		}
		chunk, atEnd, err = readPieces(pieces, offset, limit)
		// A segment was deleted after it was listed: what to skip has changed.
		if !errors.Is(err, fs.ErrNotExist) {
			return chunk, atEnd, err
		}
	}
}

func readPieces(pieces []logPiece, offset int64, limit int) (tool.LogChunk, bool, error) {
	chunk := tool.LogChunk{Offset: offset, Next: offset}
	for _, p := range pieces {
		end := p.offset + p.size
		if end <= chunk.Next {
			continue
		}
		if p.offset > chunk.Next { // a gap
			if len(chunk.Data) > 0 {
				return chunk, false, nil
			}
			chunk.Skipped = p.offset - offset
			chunk.Offset, chunk.Next = p.offset, p.offset
		}
		n := min(int64(limit-len(chunk.Data)), end-chunk.Next)
		data, err := readAt(p.path, chunk.Next-p.offset, n)
		if err != nil {
			return tool.LogChunk{}, false, err
		}
		chunk.Data = append(chunk.Data, data...)
		chunk.Next += int64(len(data))
		if len(chunk.Data) == limit {
			break
		}
	}
	total := int64(0)
	if len(pieces) > 0 {
		last := pieces[len(pieces)-1]
		total = last.offset + last.size
	}
	return chunk, chunk.Next >= total, nil
}

func readAt(path string, offset, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, n)
	got, err := f.ReadAt(data, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:got], err
}
