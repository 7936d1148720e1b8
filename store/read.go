package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/store/blobref"
)

// Get reads a whole object and verifies it. hash is what the caller's own record says; empty
// means that the hash in the reference is all there is to go by.
func (s *Store) Get(ctx context.Context, ref, hash string) ([]byte, error) {
	r, err := parse(ref, hash)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	data, err := s.bucket.ReadAll(ctx, keyOf(r))
	if err != nil {
		return nil, fmt.Errorf("get: %w", notFound(err, ref))
	}
	sum := sha256.Sum256(data)
	if found := hex.EncodeToString(sum[:]); found != r.Hash {
		return nil, fmt.Errorf("get: %w", &CorruptError{Ref: ref, Wanted: r.Hash, Found: found, Bytes: int64(len(data))})
	}
	return data, nil
}

// Range reads at most length bytes from offset of a verified object (see verify), and says how
// long the object is. A range that begins at the end is empty, one that reaches beyond it is
// shortened, one that begins beyond it or is negative is [ErrRange].
func (s *Store) Range(ctx context.Context, ref, hash string, offset, length int64) (data []byte, total int64, err error) {
	r, err := parse(ref, hash)
	if err != nil {
		return nil, 0, fmt.Errorf("range: %w", err)
	}
	total, err = s.verified(ctx, r)
	if err != nil {
		return nil, 0, fmt.Errorf("range: %w", err)
	}
	if offset < 0 || length < 0 || offset > total {
		return nil, total, fmt.Errorf("%w: offset %d, length %d of %s with %d bytes", ErrRange, offset, length, ref, total)
	}
	length = min(length, total-offset)
	if length == 0 {
		return []byte{}, total, nil
	}
	rd, err := s.bucket.NewRangeReader(ctx, keyOf(r), offset, length, nil)
	if err != nil {
		return nil, total, fmt.Errorf("range: %w", notFound(err, ref))
	}
	defer func() { _ = rd.Close() }()
	data = make([]byte, length)
	if _, err := io.ReadFull(rd, data); err != nil {
		return nil, total, fmt.Errorf("range of %s: %w", ref, err)
	}
	return data, total, nil
}

func (s *Store) verified(ctx context.Context, r blobref.Ref) (int64, error) {
	release, err := s.enter(ctx, keyOf(r))
	if err != nil {
		return 0, err
	}
	defer release()
	return s.verify(ctx, r)
}

// The size of a page in bytes, when none is asked for, at most, and at least (so that every page
// holds at least one character and reading comes to an end).
const (
	defaultPage = 64 << 10
	maxPage     = 1 << 20
	minPage     = utf8.UTFMax
)

// Page is a piece of a text, in lines.
type Page struct {
	// Lines are the lines without their line feeds. Bytes that are not UTF-8 are replaced by
	// U+FFFD.
	Lines []string
	// Next is the cursor of the next page.
	Next int64
	// End says that there is no next page.
	End bool
	// Cut says that the last line was too long for the page and goes on in the next.
	Cut bool
}

// Page reads whole lines of a verified text from a cursor, at most maxBytes of them. The cursor is
// 0 at the beginning and else the Next of the page before; any byte offset will do. maxBytes <= 0
// means 64 KiB, and more than 1 MiB is 1 MiB.
func (s *Store) Page(ctx context.Context, ref, hash string, cursor int64, maxBytes int) (Page, error) {
	if maxBytes <= 0 {
		maxBytes = defaultPage
	}
	maxBytes = max(minPage, min(maxBytes, maxPage))
	data, total, err := s.Range(ctx, ref, hash, cursor, int64(maxBytes))
	if err != nil {
		return Page{}, fmt.Errorf("page: %w", err)
	}
	page := Page{}
	if cursor+int64(len(data)) < total {
		data, page.Cut = wholeLines(data)
	}
	page.Next = cursor + int64(len(data))
	page.End = page.Next == total
	if len(data) == 0 {
		return page, nil
	}
	text := strings.TrimSuffix(strings.ToValidUTF8(string(data), "\uFFFD"), "\n")
	page.Lines = strings.Split(text, "\n")
	return page, nil
}

// wholeLines shortens data to its last line feed. When it has none, it is cut between two
// characters instead.
func wholeLines(data []byte) (_ []byte, cut bool) {
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		return data[:i+1], false
	}
	for n := 1; n < utf8.UTFMax && n < len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-n], true
			}
			break
		}
	}
	return data, true
}

// parse takes a reference apart and holds it against the caller's own record of the hash.
func parse(ref, hash string) (blobref.Ref, error) {
	r, err := blobref.Parse(ref)
	if err != nil {
		return blobref.Ref{}, err
	}
	if hash != "" && hash != r.Hash {
		return blobref.Ref{}, &blobref.RefError{Ref: ref, Rule: fmt.Sprintf("hash of the reference differs from the recorded hash %q", hash)}
	}
	return r, nil
}
