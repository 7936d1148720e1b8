package domain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wakepoint/wakepoint/domain"
)

func TestInvalidError(t *testing.T) {
	t.Parallel()
	err := domain.Invalid("event.atMs", "must be >= 0, it is %d", -1)
	if err.Error() != "invalid-request: event.atMs must be >= 0, it is -1" {
		t.Errorf("it says %q", err)
	}
	wrapped := fmt.Errorf("callback c1: %w", err)
	var invalid *domain.InvalidError
	if !errors.Is(wrapped, domain.ErrInvalid) || !errors.As(wrapped, &invalid) || invalid.Field != "event.atMs" || invalid.Rule != "must be >= 0, it is -1" {
		t.Errorf("through a wrap it is %v", invalid)
	}
	if errors.Is(err, errors.New("invalid request")) {
		t.Error("it is an error that only sounds the same")
	}
	raw, jerr := json.Marshal(invalid)
	if jerr != nil || string(raw) != `{"field":"event.atMs","rule":"must be \u003e= 0, it is -1"}` {
		t.Errorf("as JSON it is %s (%v)", raw, jerr)
	}
}

func TestTaskErrorJSON(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]domain.TaskError{
		`"boom"`:                                {Message: "boom"},
		`""`:                                    {},
		`"\u00fcbel"`:                           {Message: "übel"},
		`{}`:                                    {},
		`{"message":"m"}`:                       {Message: "m"},
		`{"code":"IO","message":"m","extra":1}`: {Code: "IO", Message: "m"},
		`{"code":"IO","message":"m","severity":"warning","retryable":true,"class":"system","details":{"a":[1]}}`: {
			Code: "IO", Message: "m", Severity: domain.SeverityWarning, Retryable: true, Class: domain.ClassSystem, Details: json.RawMessage(`{"a":[1]}`),
		},
	} {
		got := domain.TaskError{Code: "OLD", Retryable: true}
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
	for _, raw := range []string{`5`, `[]`, `true`, `{"message":5}`, `{"retryable":"yes"}`} {
		if err := json.Unmarshal([]byte(raw), &domain.TaskError{}); err == nil {
			t.Errorf("%s is read", raw)
		}
	}
	var e domain.Event
	if err := json.Unmarshal([]byte(`{"type":"fail","error":null}`), &e); err != nil || e.Error != nil {
		t.Errorf("no error is %+v (%v)", e.Error, err)
	}
	if got := (&domain.TaskError{Message: "m"}).Error(); got != "m" {
		t.Errorf("without a code it says %q", got)
	}
	if got := (&domain.TaskError{Code: "IO", Message: "m"}).Error(); got != "IO: m" {
		t.Errorf("with a code it says %q", got)
	}
}

// FuzzTaskError: what can be read is written and read as the same.
func FuzzTaskError(f *testing.F) {
	for _, seed := range []string{`"boom"`, `{"code":"IO","message":"m","details":{"a":"<"}}`, `{"retryable":true}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e domain.TaskError
		if err := json.Unmarshal(raw, &e); err != nil {
			return
		}
		once, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var back domain.TaskError
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		twice, err := json.Marshal(&back)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s became %s (%v)", once, twice, err)
		}
	})
}
