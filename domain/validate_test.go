package domain_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
)

func field(err error) string {
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field
	}
	return ""
}

// TestLimits tries every limit exactly, and one byte above.
func TestLimits(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("x", n) }
	raw := func(n int) json.RawMessage { return json.RawMessage(`"` + text(n-2) + `"`) }
	fault := func(f func(e *domain.TaskError)) *domain.TaskError {
		e := &domain.TaskError{Message: "m"}
		f(e)
		return e
	}
	for _, c := range []struct {
		field string
		limit int
		set   func(c *domain.Callback, n int)
	}{
		{"callbackId", 200, func(c *domain.Callback, n int) { c.CallbackID = text(n) }},
		{"deliveryId", 200, func(c *domain.Callback, n int) { c.DeliveryID = text(n) }},
		{"source", 256, func(c *domain.Callback, n int) { c.Source = text(n) }},
		{"event.worker", 256, func(c *domain.Callback, n int) { c.Event.Worker = text(n) }},
		{"event.cursor", 256, func(c *domain.Callback, n int) { c.Event.Cursor = text(n) }},
		{"event.stage", 256, func(c *domain.Callback, n int) { c.Event.Stage = text(n) }},
		{"event.resultRef", 2048, func(c *domain.Callback, n int) { c.Event.ResultRef = text(n) }},
		{"event.resultHash", 128, func(c *domain.Callback, n int) { c.Event.ResultHash = text(n) }},
		{"event.contentType", 128, func(c *domain.Callback, n int) { c.Event.ContentType = text(n) }},
		{"event.questionId", 200, func(c *domain.Callback, n int) { c.Event.QuestionID = text(n) }},
		{"event.prompt", 4096, func(c *domain.Callback, n int) { c.Event.Prompt = text(n) }},
		{"event.by", 256, func(c *domain.Callback, n int) { c.Event.By = text(n) }},
		{"event.reason", 4096, func(c *domain.Callback, n int) { c.Event.Reason = text(n) }},
		{"event.action", 64, func(c *domain.Callback, n int) { c.Event.Action = text(n) }},
		{"event.waiterId", 128, func(c *domain.Callback, n int) { c.Event.WaiterID = text(n) }},
		{"event.compensation", 128, func(c *domain.Callback, n int) { c.Event.Compensation = text(n) }},
		{"event.waiter.id", 128, func(c *domain.Callback, n int) { c.Event.Waiter = &domain.Waiter{ID: text(n)} }},
		{"event.waiter.runId", 128, func(c *domain.Callback, n int) { c.Event.Waiter = &domain.Waiter{RunID: text(n)} }},
		{"event.waiter.toolCallId", 200, func(c *domain.Callback, n int) { c.Event.Waiter = &domain.Waiter{ToolCallID: text(n)} }},
		{"event.waiter.leftFor", 200, func(c *domain.Callback, n int) { c.Event.Waiter = &domain.Waiter{LeftFor: text(n)} }},
		{"event.source", 256, func(c *domain.Callback, n int) { c.Event.Source = text(n) }},
		{"event.result", 65536, func(c *domain.Callback, n int) { c.Event.Result = raw(n) }},
		{"event.schema", 16384, func(c *domain.Callback, n int) { c.Event.Schema = raw(n) }},
		{"event.answer", 16384, func(c *domain.Callback, n int) { c.Event.Answer = raw(n) }},
		{"event.error.message", 4096, func(c *domain.Callback, n int) {
			c.Event.Error = fault(func(e *domain.TaskError) { e.Message = text(n) })
		}},
		{"event.error.code", 64, func(c *domain.Callback, n int) {
			c.Event.Error = fault(func(e *domain.TaskError) { e.Code = strings.Repeat("X", n) })
		}},
		{"event.error.details", 16384, func(c *domain.Callback, n int) {
			c.Event.Error = fault(func(e *domain.TaskError) { e.Details = raw(n) })
		}},
	} {
		cb := callback(t, "c", "fail at=1")
		c.set(&cb, c.limit)
		if err := cb.Validate(); err != nil {
			t.Errorf("%s of exactly %d bytes: %v", c.field, c.limit, err)
		}
		c.set(&cb, c.limit+1)
		if err := cb.Validate(); field(err) != c.field {
			t.Errorf("%s of %d bytes: %v", c.field, c.limit+1, err)
		}
		// Whatever is much too large is as invalid as what is a little.
		c.set(&cb, 2<<20)
		if err := cb.Validate(); field(err) != c.field {
			t.Errorf("%s of 2 MiB: %v", c.field, err)
		}
	}
}

// TestEncodings: nothing but valid UTF-8 and valid JSON comes in.
func TestEncodings(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	badJSON := json.RawMessage("\"a\xffb\"")
	for want, set := range map[string]func(c *domain.Callback){
		"callbackId":              func(c *domain.Callback) { c.CallbackID = bad },
		"deliveryId":              func(c *domain.Callback) { c.DeliveryID = bad },
		"source":                  func(c *domain.Callback) { c.Source = bad },
		"event.worker":            func(c *domain.Callback) { c.Event.Worker = bad },
		"event.cursor":            func(c *domain.Callback) { c.Event.Cursor = bad },
		"event.stage":             func(c *domain.Callback) { c.Event.Stage = bad },
		"event.resultRef":         func(c *domain.Callback) { c.Event.ResultRef = bad },
		"event.resultHash":        func(c *domain.Callback) { c.Event.ResultHash = bad },
		"event.questionId":        func(c *domain.Callback) { c.Event.QuestionID = bad },
		"event.action":            func(c *domain.Callback) { c.Event.Action = bad },
		"event.waiterId":          func(c *domain.Callback) { c.Event.WaiterID = bad },
		"event.compensation":      func(c *domain.Callback) { c.Event.Compensation = bad },
		"event.waiter.id":         func(c *domain.Callback) { c.Event.Waiter = &domain.Waiter{ID: bad} },
		"event.waiter.toolCallId": func(c *domain.Callback) { c.Event.Waiter = &domain.Waiter{ToolCallID: bad} },
		"event.prompt":            func(c *domain.Callback) { c.Event.Prompt = bad },
		"event.error.message":     func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Message: bad} },
		"event.error.code":        func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Code: bad} },
		"event.error.details":     func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Details: badJSON} },
		"event.result":            func(c *domain.Callback) { c.Event.Result = badJSON },
		"event.schema":            func(c *domain.Callback) { c.Event.Schema = json.RawMessage(`{"a":}`) },
		"event.answer":            func(c *domain.Callback) { c.Event.Answer = json.RawMessage(`1 2`) },
	} {
		c := callback(t, "c", "fail at=1")
		set(&c)
		if err := c.Validate(); field(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	c := callback(t, "Grüße ✓", "fail at=1 error=Übel")
	if err := c.Validate(); err != nil {
		t.Errorf("words of other languages: %v", err)
	}
}

// TestValues: numbers, types and closed sets.
func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		set        func(c *domain.Callback)
	}{
		{"a blank callback id", "callbackId", func(c *domain.Callback) { c.CallbackID = " \t" }},
		{"no callback id", "callbackId", func(c *domain.Callback) { c.CallbackID = "" }},
		{"a negative clock of the sender", "occurredAtMs", func(c *domain.Callback) { c.OccurredAtMs = -1 }},
		{"a negative wait", "event.retryAfterMs", func(c *domain.Callback) { c.Event.RetryAfterMs = -1 }},
		{"a negative time", "event.atMs", func(c *domain.Callback) { c.Event.AtMs = -1 }},
		{"a negative attempt", "event.attempt", func(c *domain.Callback) { c.Event.Attempt = -1 }},
		{"a negative size", "event.bytes", func(c *domain.Callback) { c.Event.Bytes = -1 }},
		{"no type", "event.type", func(c *domain.Callback) { c.Event.Type = "" }},
		{"an unknown type", "event.type", func(c *domain.Callback) { c.Event.Type = "explode" }},
		{"a type in capitals", "event.type", func(c *domain.Callback) { c.Event.Type = "Start" }},
		{"an unknown severity", "event.error.severity", func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Severity: "fatal"} }},
		{"an unknown class", "event.error.class", func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Class: "ours"} }},
		{"a code in small letters", "event.error.code", func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Code: "io_error"} }},
		{"a code with a blank", "event.error.code", func(c *domain.Callback) { c.Event.Error = &domain.TaskError{Code: "IO ERROR"} }},
		{"a result and a reference", "event.result", func(c *domain.Callback) { c.Event.Result, c.Event.ResultRef = json.RawMessage("1"), "r" }},
		{"a result and a hash", "event.result", func(c *domain.Callback) { c.Event.Result, c.Event.ResultHash = json.RawMessage("1"), "h" }},
	} {
		cb := callback(t, "c", "fail at=1")
		c.set(&cb)
		err := cb.Validate()
		if field(err) != c.want || !errors.Is(err, domain.ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid-request: "+c.want+" must ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, good := range []domain.TaskError{
		{},
		{Severity: domain.SeverityInfo},
		{Severity: domain.SeverityWarning},
		{Severity: domain.SeverityError},
		{Severity: domain.SeverityCritical},
		{Class: domain.ClassUser},
		{Class: domain.ClassSystem},
		{Class: domain.ClassThirdParty},
		{Code: "IO_2"},
		{Details: json.RawMessage("null")},
	} {
		c := callback(t, "c", "fail at=1")
		c.Event.Error = &good
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

// TestDoorTypes: each event type comes from outside or from within, never both.
func TestDoorTypes(t *testing.T) {
	t.Parallel()
	outside := map[domain.EventType]bool{
		"start": true, "progress": true, "heartbeat": true, "succeed": true, "fail": true, "input-required": true, "cancelled": true,
	}
	for _, e := range domain.EventTypes() {
		c := domain.Callback{CallbackID: "c", Event: domain.Event{Type: e}}
		err := c.Validate()
		if e.Door() != outside[e] || (err == nil) != outside[e] {
			t.Errorf("%s: door %v, validated with %v", e, e.Door(), err)
		}
		if err := (domain.Event{Type: e}).Validate(); err != nil {
			t.Errorf("%s from within: %v", e, err)
		}
		if err != nil && !strings.Contains(err.Error(), string(e)) {
			t.Errorf("%s: the refusal doesn't name it: %v", e, err)
		}
	}
	if domain.EventType("nonsense").Door() {
		t.Error("nonsense may come from outside")
	}
}

// TestNew: what a task can be made of.
func TestNew(t *testing.T) {
	t.Parallel()
	good := domain.Create{ID: "t", NowMs: 5, TTLMs: 10, MaxAttempts: 1}
	got, err := domain.New(good)
	if err != nil || got.State != domain.StateQueued || got.ExpiresAtMs != 15 || got.Version != 0 || got.History == nil || got.CreatedAtMs != 5 {
		t.Fatalf("%+v (%v)", got, err)
	}
	for _, c := range []struct {
		name, want string
		set        func(c *domain.Create)
	}{
		{"no id", "id", func(c *domain.Create) { c.ID = "" }},
		{"a blank id", "id", func(c *domain.Create) { c.ID = " \n" }},
		{"before the epoch", "nowMs", func(c *domain.Create) { c.NowMs = -1 }},
		{"no time to live", "ttlMs", func(c *domain.Create) { c.TTLMs = 0 }},
		{"less than none", "ttlMs", func(c *domain.Create) { c.TTLMs = -1 }},
		{"a deadline beyond all numbers", "ttlMs", func(c *domain.Create) { c.TTLMs = 1<<63 - 1 }},
		{"no attempt", "maxAttempts", func(c *domain.Create) { c.MaxAttempts = 0 }},
		{"a negative number of attempts", "maxAttempts", func(c *domain.Create) { c.MaxAttempts = -2 }},
		{"a priority above all", "priority", func(c *domain.Create) { c.Priority = -1 }},
		{"a priority below all", "priority", func(c *domain.Create) { c.Priority = 6 }},
		{"a broken policy", "policy.leaseMs", func(c *domain.Create) { c.Policy.LeaseMs = -1 }},
	} {
		bad := good
		c.set(&bad)
		if _, err := domain.New(bad); field(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for p := range 6 {
		c := good
		c.Priority = p
		if _, err := domain.New(c); err != nil {
			t.Errorf("priority %d: %v", p, err)
		}
	}
}

// TestFractionalTimes: times are integers, also in JSON.
func TestFractionalTimes(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"type":"start","atMs":1.5}`, `{"type":"start","atMs":"1"}`, `{"type":"start","atMs":1e400}`} {
		var e domain.Event
		if err := json.Unmarshal([]byte(raw), &e); err == nil {
			t.Errorf("%s is read as %+v", raw, e)
		}
	}
}
