package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// maxJob bounds a job's JSON, in bytes. A larger result goes by fields.resultURL.
	maxJob = 4 << 20
	// maxJobs bounds the jobs of one page of a list.
	maxJobs = 10_000
	// The contract's bounds of an error's text and of its details, in bytes.
	maxMessage = 4 << 10
	maxDetails = 16 << 10
	// maxStage and maxWord bound what a job says about itself, in bytes.
	maxStage = 200
	maxWord  = 64
)

// stateUnread is the state of a job whose word is none of the declared ones.
const stateUnread tool.State = ""

// job is what the service says of a job.
type job struct {
	id, key string
	// word is the state in the service's words, empty when it says none.
	word      string
	state     tool.State
	progress  *int
	stage     string
	result    json.RawMessage // nil when there is none
	resultURL string
	failure   json.RawMessage // nil when there is none
	startedAt int64
	endedAt   int64
}

// reader reads jobs as they are declared. It is the only place that takes the JSON of a service
// apart.
type reader struct {
	id, state, progress, stage, result, resultURL, failure, startedAt, endedAt, key, jobs, next pointer
	words                                                                                       map[string]tool.State
	// redact hides secrets. It comes before any cut, which could leave the half of one.
	redact func(string) string
}

// newReader compiles the declaration. Its errors name the field.
func newReader(f Fields, s States) (*reader, error) {
	r := &reader{words: map[string]tool.State{}, redact: func(s string) string { return s }}
	for i, p := range []*pointer{
		&r.id, &r.state, &r.progress, &r.stage, &r.result, &r.resultURL, &r.failure, &r.startedAt, &r.endedAt, &r.key, &r.jobs, &r.next,
	} {
		declared := f.all()[i]
		compiled, err := parsePointer(*declared.value)
		if err != nil {
			return nil, fmt.Errorf("fields.%s %w", declared.name, err)
		}
		*p = compiled
	}
	for _, list := range []struct {
		name  string
		state tool.State
		words []string
	}{
		{"running", tool.StateRunning, s.Running},
		{"succeeded", tool.StateSucceeded, s.Succeeded},
		{"failed", tool.StateFailed, s.Failed},
		{"cancelled", tool.StateCancelled, s.Cancelled},
	} {
		for _, word := range list.words {
			folded := fold(word)
			switch had, ok := r.words[folded]; {
			case folded == "":
				return nil, fmt.Errorf("states.%s must not have a blank word", list.name)
			case ok && had != list.state:
				return nil, fmt.Errorf("states.%s has the word %q, which means %s already", list.name, word, had)
			}
			r.words[folded] = list.state
		}
	}
	return r, nil
}

func fold(word string) string { return strings.ToLower(strings.TrimSpace(word)) }

// clean is a body as JSON: without a byte order mark, which RFC 8259 (section 8.1) lets a reader
// ignore, and in UTF-8.
func clean(body []byte) ([]byte, bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	return body, utf8.Valid(body) && json.Valid(body)
}

// parseJob reads one job. What is missing in it or of another type than declared is not there; only
// a body that is no JSON object is an error.
func (r *reader) parseJob(body []byte) (job, error) {
	body, ok := clean(body)
	if !ok {
		return job{}, errors.New("is not JSON in UTF-8")
	}
	doc, err := parseDocument(body)
	if err != nil {
		return job{}, err
	}
	return r.job(doc), nil
}

func (r *reader) job(doc document) job {
	text := func(p pointer) string {
		raw, _ := doc.at(p)
		return scalar(raw)
	}
	j := job{
		id: text(r.id), key: text(r.key), word: cut(r.redact(strings.TrimSpace(text(r.state))), maxWord),
		stage: cut(r.redact(text(r.stage)), maxStage), resultURL: text(r.resultURL),
	}
	j.state = r.words[fold(text(r.state))]
	if raw, ok := doc.at(r.progress); ok {
		j.progress = parseProgress(raw)
	}
	if raw, ok := doc.at(r.result); ok {
		j.result = raw
	}
	if raw, ok := doc.at(r.failure); ok && kind(raw) != 'n' {
		j.failure = raw
	}
	if raw, ok := doc.at(r.startedAt); ok {
		j.startedAt = parseTime(raw)
	}
	if raw, ok := doc.at(r.endedAt); ok {
		j.endedAt = parseTime(raw)
	}
	return j
}

// parseList reads the jobs of a list, and the URL of the next page. A single job is a list of one.
func (r *reader) parseList(body []byte) (jobs []job, next string, err error) {
	body, ok := clean(body)
	if !ok {
		return nil, "", errors.New("is not JSON in UTF-8")
	}
	items := json.RawMessage(body)
	switch kind(body) {
	case 'n': // null
		return nil, "", nil
	case '{':
		doc, err := parseDocument(body)
		if err != nil {
			return nil, "", err
		}
		list, found := doc.at(r.jobs)
		if !found || kind(list) != '[' && kind(list) != 'n' {
			if len(doc.fields) == 0 {
				return nil, "", nil
			}
			return []job{r.job(doc)}, "", nil
		}
		items = list
		raw, _ := doc.at(r.next)
		next = scalar(raw)
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(items, &raws); err != nil {
		return nil, "", errors.New("is neither a JSON object nor an array")
	}
	if len(raws) > maxJobs {
		return nil, "", fmt.Errorf("has more than %d jobs in a page", maxJobs)
	}
	for i, raw := range raws {
		doc, err := parseDocument(raw)
		if err != nil {
			return nil, "", fmt.Errorf("job %d of the list %w", i, err)
		}
		jobs = append(jobs, r.job(doc))
	}
	return jobs, next, nil
}

// parseProgress cuts a number down to a whole one from 0 to 100; nil is no number.
func parseProgress(raw json.RawMessage) *int {
	if c := kind(raw); c != '-' && (c < '0' || c > '9') {
		return nil
	}
	// A number too large for a float is an infinity, which is cut down as well.
	f, err := strconv.ParseFloat(scalar(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil
	}
	n := int(math.Floor(min(max(f, 0), 100)))
	return &n
}

// parseTime reads milliseconds since the epoch, or RFC 3339; 0 is neither.
func parseTime(raw json.RawMessage) int64 {
	const latest = 253_402_300_799_999 // the end of the year 9999
	text := scalar(raw)
	ms, err := strconv.ParseFloat(text, 64)
	if kind(raw) == '"' || err != nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0
		}
		ms = float64(at.UnixMilli())
	}
	if math.IsNaN(ms) || ms <= 0 || ms > latest {
		return 0
	}
	return int64(ms)
}

// parseFailure reads why a job failed, or why a request was refused, over what is known without it.
// A string is the message. An object has the parts of the contract's error, each as far as it is
// usable; detail and title are those of RFC 9457.
func parseFailure(raw json.RawMessage, known tool.Failure, redact func(string) string) tool.Failure {
	f := known
	doc, err := parseDocument(raw)
	if err != nil {
		text := scalar(raw)
		if text == "" {
			text = string(raw)
		}
		if text = strings.TrimSpace(text); text != "" {
			f.Message = cut(redact(text), maxMessage)
		}
		return f
	}
	field := func(name string) json.RawMessage { return doc.fields[name] }
	for _, name := range []string{"message", "detail", "title"} {
		if text := strings.TrimSpace(scalar(field(name))); text != "" {
			f.Message = cut(redact(text), maxMessage)
			break
		}
	}
	if code := upperSnake(redact(scalar(field("code")))); code != "" {
		f.Code = code
	}
	switch class := scalar(field("class")); class {
	case tool.ClassUser:
		f.Class, f.Retryable = class, false
	case tool.ClassSystem, tool.ClassThirdParty:
		f.Class = class
	}
	switch severity := scalar(field("severity")); severity {
	case tool.SeverityInfo, tool.SeverityWarning, tool.SeverityError, tool.SeverityCritical:
		f.Severity = severity
	}
	switch scalar(field("retryable")) {
	case "true":
		f.Retryable = true
	case "false":
		f.Retryable = false
	}
	if details := json.RawMessage(redact(string(field("details")))); kind(details) == '{' && len(details) <= maxDetails && json.Valid(details) {
		f.Details = details
	}
	if ms, err := strconv.ParseFloat(scalar(field("retryAfterMs")), 64); err == nil && ms > 0 {
		f.RetryAfterMs = int64(min(ms, float64(maxRetryAfter.Milliseconds())))
	}
	return f
}

// numericCode stands before a code that is a number.
const numericCode = "CODE_"

// upperSnake puts a code into the contract's form; empty when nothing is left of it.
func upperSnake(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToUpper(cut(s, maxWord)) {
		if r > 0x7f || !isAlphanumeric(byte(r)) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(r)
	}
	code := b.String()
	if code != "" && code[0] <= '9' {
		code = numericCode + code
	}
	return code
}

// cut shortens a text to a limit of bytes without breaking a character.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
