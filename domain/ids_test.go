package domain_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "A-z_0.9", ".", "-", strings.Repeat("x", 128), "key_of_mine", "task_1"} {
		if err := domain.CheckID("runId", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ", "a b", "a/b", "a\x00b", "ä", "a\n", "a:b", "a@b", "a%2f", strings.Repeat("x", 129)} {
		if err := domain.CheckID("runId", bad); field(err) != "runId" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCheckTenant(t *testing.T) {
	t.Parallel()
	for tenant, good := range map[string]bool{
		"acme": true, "A.b-c_9": true, strings.Repeat("x", 32): true,
		"": false, "\t": false, "a/b": false, "ü": false, strings.Repeat("x", 33): false,
	} {
		if err := domain.CheckTenant(tenant); (err == nil) != good || !good && field(err) != "tenant" {
			t.Errorf("%q: %v", tenant, err)
		}
	}
}

// TestCheckChosenID: a caller's own id cannot be taken for one of ours.
func TestCheckChosenID(t *testing.T) {
	t.Parallel()
	for id, good := range map[string]bool{
		"build-1": true, "task": true, "key": true, "Task_1": true, "mytask_1": true,
		"undo": true, "cache-7": true,
		"task_1": false, "task_": false, "key_abc": false, "key_": false, "cache_abc_1": false, "undo_abc": false, "undo_": false, "": false, "a b": false, strings.Repeat("x", 129): false,
	} {
		if err := domain.CheckChosenID(id); (err == nil) != good || !good && field(err) != "taskId" {
			t.Errorf("%q: %v", id, err)
		}
	}
	if made := domain.KeyedID([]byte("s"), "acme", "k"); domain.CheckChosenID(made) == nil || domain.CheckID("taskId", made) != nil {
		t.Errorf("%s can be chosen, or is no id", made)
	}
}

func TestKeyedID(t *testing.T) {
	t.Parallel()
	secret := []byte("installation")
	id := domain.KeyedID(secret, "acme", "order-7")
	if !regexp.MustCompile(`^key_[a-z2-7]{52}$`).MatchString(id) {
		t.Errorf("the id is %s", id)
	}
	// Computed by another program; a change would lose every keyed task.
	if id != "key_wxmkzdhw3wbdztqote67esw5lasdt44blmyyfza4o7s4gn4kw7qq" {
		t.Errorf("the id of this key has changed to %s", id)
	}
	for name, other := range map[string]string{
		"another secret": domain.KeyedID([]byte("another"), "acme", "order-7"),
		"another tenant": domain.KeyedID(secret, "umbrella", "order-7"),
		"another key":    domain.KeyedID(secret, "acme", "order-8"),
		"a blank more":   domain.KeyedID(secret, "acme", "order-7 "),
		"parts moved":    domain.KeyedID(secret, "acmeorder-7", ""),
		"parts moved 2":  domain.KeyedID(secret, "acm", "eorder-7"),
	} {
		if other == id {
			t.Errorf("%s gives the same id", name)
		}
	}
	if long := domain.KeyedID(secret, "acme", strings.Repeat("k", 100_000)); len(long) != len(id) {
		t.Errorf("the id of a long key has %d characters", len(long))
	}
}

// TestCacheID: equal calls are one task, and whatever makes them differ makes
// another.
func TestCacheID(t *testing.T) {
	t.Parallel()
	secret := []byte("installation")
	key := domain.CacheKey{Tenant: "acme", Tool: "build", Version: "2", Input: `{"a":1}`, Bucket: 7}
	id := domain.CacheID(secret, key, 1)
	if !regexp.MustCompile(`^cache_[a-z2-7]{52}_1$`).MatchString(id) || domain.CheckID("taskId", id) != nil || domain.CheckChosenID(id) == nil {
		t.Errorf("the id is %s", id)
	}
	if next := domain.CacheID(secret, key, 2); strings.TrimSuffix(next, "_2") != strings.TrimSuffix(id, "_1") {
		t.Errorf("generation 2 of %s is %s", id, next)
	}
	others := map[string]string{
		"another secret":     domain.CacheID([]byte("another"), key, 1),
		"parts run together": domain.CacheID(secret, domain.CacheKey{Tenant: "acme", Tool: "build2", Version: "", Input: `{"a":1}`, Bucket: 7}, 1),
		"the keyed id":       domain.KeyedID(secret, "acme", "build"),
	}
	for name, change := range map[string]func(k *domain.CacheKey){
		"another tenant":  func(k *domain.CacheKey) { k.Tenant = "umbrella" },
		"another tool":    func(k *domain.CacheKey) { k.Tool = "test" },
		"another version": func(k *domain.CacheKey) { k.Version = "3" },
		"no version":      func(k *domain.CacheKey) { k.Version = "" },
		"another input":   func(k *domain.CacheKey) { k.Input = `{"a":2}` },
		"another bucket":  func(k *domain.CacheKey) { k.Bucket = 8 },
		"a bucket before": func(k *domain.CacheKey) { k.Bucket = -7 },
	} {
		k := key
		change(&k)
		others[name] = domain.CacheID(secret, k, 1)
	}
	for name, other := range others {
		if other == id {
			t.Errorf("%s gives the same id", name)
		}
	}
	// Computed by another program.
	if id != "cache_x6rb3fxo35xx3hdfkfdmg2tuew66sd2daxh2nilbkhff2hygtylq_1" {
		t.Errorf("the id of this call has changed, so that every cached result is lost: %s", id)
	}
}

func TestBlobRef(t *testing.T) {
	t.Parallel()
	if got := domain.BlobRef("acme", "t1", "abc"); got != "blob:acme/task/t1/abc" {
		t.Error(got)
	}
	longest := domain.BlobRef(strings.Repeat("x", domain.MaxTenant), strings.Repeat("x", domain.MaxID), strings.Repeat("f", 64))
	if len(longest) > domain.MaxRef {
		t.Errorf("the longest reference has %d bytes", len(longest))
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	of := func(tool, input string, parts ...string) string {
		t.Helper()
		f, err := domain.Fingerprint(tool, json.RawMessage(input), parts...)
		if err != nil {
			t.Fatalf("%s: %v", input, err)
		}
		return f
	}
	base := of("build", `{"a":1,"b":{"x":[1,2],"y":null}}`, "v1")
	for name, same := range map[string]string{
		"spacing":              of("build", " {\n\"a\" : 1, \"b\":{ \"x\":[1 ,2],\"y\":null}} ", "v1"),
		"the order of members": of("build", `{"b":{"y":null,"x":[1,2]},"a":1}`, "v1"),
		"escapes":              of("build", `{"\u0061":1,"b":{"x":[1,2],"y":null}}`, "v1"),
	} {
		if same != base {
			t.Errorf("%s counts", name)
		}
	}
	for name, other := range map[string]string{
		"another tool":       of("test", `{"a":1,"b":{"x":[1,2],"y":null}}`, "v1"),
		"another value":      of("build", `{"a":2,"b":{"x":[1,2],"y":null}}`, "v1"),
		"another order":      of("build", `{"a":1,"b":{"x":[2,1],"y":null}}`, "v1"),
		"a missing null":     of("build", `{"a":1,"b":{"x":[1,2]}}`, "v1"),
		"a number as text":   of("build", `{"a":"1","b":{"x":[1,2],"y":null}}`, "v1"),
		"another part":       of("build", `{"a":1,"b":{"x":[1,2],"y":null}}`, "v2"),
		"one part more":      of("build", `{"a":1,"b":{"x":[1,2],"y":null}}`, "v1", ""),
		"no part":            of("build", `{"a":1,"b":{"x":[1,2],"y":null}}`),
		"parts run together": of("build", `{"a":1,"b":{"x":[1,2],"y":null}}`, "v", "1"),
		"no input":           of("build", ``, "v1"),
		"null":               of("build", `null`, "v1"),
	} {
		if other == base {
			t.Errorf("%s does not count", name)
		}
	}
	// Numbers that a float cannot hold are told apart.
	if of("build", `9007199254740993`) == of("build", `9007199254740992`) {
		t.Error("two large numbers are one")
	}
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[1.50,"<&>"]}`, ` null `, `"\ud800"`, `{"a":1,"a":2}`, `-0`, `1e5`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := domain.CanonicalJSON(raw)
		if (err == nil) != (json.Valid(raw) || len(raw) == 0) {
			t.Fatalf("%q is valid JSON: %v, and yet: %v", raw, json.Valid(raw), err)
		}
		if err != nil {
			return
		}
		twice, err := domain.CanonicalJSON(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q becomes %q, then %q (%v)", raw, once, twice, err)
		}
	})
}
