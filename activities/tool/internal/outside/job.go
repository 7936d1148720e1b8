// Package outside holds what the executors have in common whose jobs live on a Temporal server:
// ids made from submission keys, what is noted with a job, and the server's words in our terms.
package outside

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/wakepoint/wakepoint/activities/tool"
)

const (
	// maxKey bounds a submission key and maxInput an input, in bytes, as with every executor.
	maxKey   = 512
	maxInput = 1 << 20
	// maxPlainKey is how long a key may be, in bytes, to be readable in the job's id: with what is
	// put into it the id stays below 255, which is what SQL visibility holds.
	maxPlainKey = 240
	// maxTenant is the longest tenant.
	maxTenant = 32
	// jobPart stands in the ids between the tenant and the rest of the key, where the tasks of the
	// tenant have "task".
	jobPart = "/job/"
	hashed  = "sha256-"
)

// ID is the id of a key's job. A key of the form tenant/rest that is short and plain can be read
// from it; any other key is hashed. Different keys have different ids.
func ID(key string) string {
	tenant, rest, ok := strings.Cut(key, "/")
	ok = ok && plain(tenant) && !strings.Contains(tenant, "/") && len(tenant) <= maxTenant
	if ok && plain(rest) && len(key) <= maxPlainKey && !strings.HasPrefix(rest, hashed) {
		return tenant + jobPart + rest
	}
	sum := sha256.Sum256([]byte(key))
	id := hashed + hex.EncodeToString(sum[:])
	if ok {
		return tenant + jobPart + id
	}
	return "wakepoint" + jobPart + id
}

// Key gives the key of an id that [ID] made. It is empty when the key was hashed, and ours is
// false when the id is none of these.
func Key(id string) (key string, ours bool) {
	tenant, rest, ok := strings.Cut(id, jobPart)
	if !ok || tenant == "" || strings.Contains(tenant, "/") {
		return "", false
	}
	if strings.HasPrefix(rest, hashed) {
		return "", true
	}
	key = tenant + "/" + rest
	return key, ID(key) == id
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-/", r)
	})
}

// Record is what is noted with a job at its start: whose it is, and for which attempt. The server
// keeps it for as long as it knows the job.
type Record struct {
	SubmissionKey string `json:"submissionKey"`
	Tenant        string `json:"tenant"`
	TaskID        string `json:"taskId"`
	Tool          string `json:"tool"`
	Attempt       int    `json:"attempt"`
	// InputHash is that of the input without regard to spaces and the order of fields.
	InputHash string `json:"inputHash"`
}

// NewRecord is the record of a request that [Check] has passed.
func NewRecord(toolName string, req tool.Request) Record {
	return Record{
		SubmissionKey: req.SubmissionKey, Tenant: req.Tenant, TaskID: req.TaskID, Tool: toolName, Attempt: req.Attempt,
		InputHash: hashJSON(req.Input),
	}
}

// Reused refuses a key whose job was started for something else; nil when it is the same.
func (r Record) Reused(had Record) error {
	differs := ""
	switch {
	case had.SubmissionKey != r.SubmissionKey:
		differs = "submission key"
	case had.Tenant != r.Tenant:
		differs = "tenant"
	case had.TaskID != r.TaskID:
		differs = "task"
	case had.Tool != r.Tool:
		differs = "tool"
	case had.InputHash != r.InputHash:
		differs = "input"
	default:
		return nil
	}
	return NotStarted(CodeKeyReused, fmt.Sprintf("submissionKey %q was used with another %s", r.SubmissionKey, differs), tool.ClassSystem, nil)
}

// Check refuses a request that no executor can take, and puts an empty object for absent input.
func Check(req *tool.Request) error {
	if len(bytes.TrimSpace(req.Input)) == 0 {
		req.Input = json.RawMessage("{}")
	}
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	rule := ""
	switch {
	case strings.TrimSpace(req.SubmissionKey) == "":
		rule = "submissionKey must not be blank"
	case len(req.SubmissionKey) > maxKey || control(req.SubmissionKey):
		rule = fmt.Sprintf("submissionKey must have at most %d bytes and no control characters", maxKey)
	case req.Tenant == "" || control(req.Tenant):
		rule = "tenant must not be empty or contain control characters"
	case req.TaskID == "" || control(req.TaskID):
		rule = "taskId must not be empty or contain control characters"
	case req.Attempt < 1:
		rule = "attempt must be 1 or more"
	case req.DeadlineAtMs < 0:
		rule = "deadlineAtMs must not be negative"
	case len(req.Input) > maxInput:
		rule = fmt.Sprintf("input must have at most %d bytes", maxInput)
	case !json.Valid(req.Input):
		rule = "input must be JSON"
	default:
		return nil
	}
	return NotStarted(CodeInvalidRequest, rule, tool.ClassUser, nil)
}

// hashJSON is the SHA-256 of JSON, without regard to spaces and the order of fields.
func hashJSON(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // 1e400 and 0.10 stay what they are
	var v any
	if err := d.Decode(&v); err == nil {
		if canonical, err := json.Marshal(v); err == nil {
			raw = canonical
		}
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Left is the time until a deadline in milliseconds since the epoch. Zero is no deadline; one that
// has passed is a definite error.
func Left(deadlineAtMs int64) (time.Duration, error) {
	if deadlineAtMs == 0 {
		return 0, nil
	}
	left := time.Until(time.UnixMilli(deadlineAtMs))
	if left <= 0 {
		return 0, NotStarted(CodeTimeout, "the deadline has passed already", tool.ClassUser, nil)
	}
	return left, nil
}

// Args makes the arguments of an input: itself, or the elements of an array.
func Args(spread bool, input json.RawMessage) ([]any, error) {
	if !spread {
		return []any{input}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(input, &list); err != nil || list == nil {
		return nil, NotStarted(CodeInvalidInput, "the input must be an array, its elements are the arguments", tool.ClassUser, err)
	}
	args := make([]any, len(list))
	for i, a := range list {
		args[i] = a
	}
	return args, nil
}
