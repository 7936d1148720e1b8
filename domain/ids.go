package domain

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Limits of identifiers, in bytes. Together with the fixed parts of a workflow
// id they stay below the 255 of the engine's SQL stores.
const (
	MaxTenant = 32
	MaxID     = 128
)

// The prefixes of the ids that Wakepoint makes. A caller's own id has none of them.
const (
	PrefixGenerated = "task_"
	PrefixKeyed     = "key_"
	// PrefixCompensation begins the id of a task that undoes another's work.
	PrefixCompensation = "undo_"
	PrefixCached       = "cache_"
	// PrefixCall begins the id of the task of a run's call, PrefixRun and PrefixSubRun
	// those of runs.
	PrefixCall   = "call_"
	PrefixRun    = "run_"
	PrefixSubRun = "sub_"
)

// CheckTenant checks a tenant: 1 to 32 of A-Z a-z 0-9 . _ -.
func CheckTenant(tenant string) error { return checkID("tenant", tenant, MaxTenant) }

// CheckID checks an id of a task or a run: 1 to 128 of A-Z a-z 0-9 . _ -.
func CheckID(field, id string) error { return checkID(field, id, MaxID) }

// CheckChosenID checks a task id that the caller has chosen.
func CheckChosenID(id string) error {
	if err := checkID("taskId", id, MaxID); err != nil {
		return err
	}
	return checkPrefix("taskId", id, PrefixGenerated, PrefixKeyed, PrefixCached, PrefixCompensation, PrefixCall)
}

// CheckChosenRunID checks a run id that the caller has chosen.
func CheckChosenRunID(id string) error {
	if err := checkID("runId", id, MaxID); err != nil {
		return err
	}
	return checkPrefix("runId", id, PrefixRun, PrefixKeyed, PrefixSubRun)
}

func checkPrefix(field, id string, prefixes ...string) error {
	for _, prefix := range prefixes {
		if strings.HasPrefix(id, prefix) {
			return Invalid(field, "must not begin with %s, which Wakepoint gives itself", prefix)
		}
	}
	return nil
}

func checkID(field, id string, limit int) error {
	if blank(id) {
		return Invalid(field, "must not be blank")
	}
	if len(id) > limit {
		return Invalid(field, "must be at most %d characters, it has %d", limit, len(id))
	}
	for i := range len(id) {
		if !idByte(id[i]) {
			return Invalid(field, "must consist of letters, digits, dot, underscore and hyphen")
		}
	}
	return nil
}

func idByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// KeyedID is the task id of an idempotency key: a keyed hash, so that an id
// gives the key away to nobody, and the same key is the same task on every
// gateway that has the installation's secret.
func KeyedID(secret []byte, tenant, key string) string {
	mac := hmac.New(sha256.New, secret)
	// The tenant cannot hold a zero byte, so the two parts cannot run together.
	mac.Write([]byte(tenant))
	mac.Write([]byte{0})
	mac.Write([]byte(key))
	return PrefixKeyed + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)))
}

// CacheKey is what equal calls of a tool have in common.
type CacheKey struct {
	Tenant string
	Tool   string
	// Version is the operator's own mark of the tool: another version answers no
	// call of this one.
	Version string
	// Input is the input in the canonical form of RFC 8785.
	Input string
	// Bucket numbers the stretch of time in which the call was made.
	Bucket int64
}

// CacheID is the task id of a cached call: a keyed hash, so that nobody who lists
// ids can guess inputs from them, and a generation. The first task of a key is
// generation 1; a task that answers no more is followed by the next one.
func CacheID(secret []byte, k CacheKey, generation int) string {
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{k.Tenant, k.Tool, k.Version, k.Input, strconv.FormatInt(k.Bucket, 10)} {
		// Hashes are of one length, so that the parts cannot run together.
		sum := sha256.Sum256([]byte(part))
		mac.Write(sum[:])
	}
	return PrefixCached + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil))) + "_" + strconv.Itoa(generation)
}

// Fingerprint identifies what a submission asks for: the same id or key with
// another fingerprint is a mistake of the caller. Spacing and the order of
// members of the input don't count.
func Fingerprint(tool string, input json.RawMessage, parts ...string) (string, error) {
	canonical, err := canonicalJSON(input)
	if err != nil {
		return "", Invalid("input", "must be valid JSON")
	}
	h := sha256.New()
	for _, p := range append([]string{tool, string(canonical)}, parts...) {
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// canonicalJSON sorts members and drops spacing; numbers stay as written.
func canonicalJSON(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return json.Marshal(v)
}

// sameJSON compares values, not bytes: whatever crosses a continue-as-new has
// been written by another JSON writer.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, xerr := canonicalJSON(a)
	y, yerr := canonicalJSON(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// BlobRef names the place of a result in the blob store. It follows from the
// content's sha-256 (64 hexadecimal digits), so that it is known before the
// bytes are there; it belongs to one task, so that it can go when the task goes.
func BlobRef(tenant, taskID, hash string) string {
	return "blob:" + tenant + "/task/" + taskID + "/" + hash
}
