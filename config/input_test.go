package config_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
)

func TestValidateInput(t *testing.T) {
	t.Parallel()
	vet, _ := parse(t, whole).Tool("vet")
	free, _ := parse(t, whole).Tool("train")
	for name, tc := range map[string]struct {
		tool  config.Tool
		input string
		// field and rule are of the refusal; none means that it is accepted.
		field, rule string
	}{
		"fits":             {vet, `{"dir":".","level":16}`, "", ""},
		"wrong type":       {vet, `{"dir":3}`, "input.dir", "must match the tool's schema: got number, want string"},
		"missing":          {vet, `{}`, "input", "must match the tool's schema: missing property 'dir'"},
		"absent is {}":     {vet, ``, "input", "must match the tool's schema: missing property 'dir'"},
		"unknown property": {vet, `{"dir":".","x":1}`, "input", "must match the tool's schema: additional properties 'x' not allowed"},
		"several":          {vet, `{"dir":"","level":17}`, "input.dir", "must match the tool's schema: minLength: got 0, want 1; input.level maximum: got 17, want 16"},
		"no JSON":          {vet, `{`, "input", "must be valid JSON"},
		"two values":       {vet, `{} {}`, "input", "must be valid JSON"},
		"no schema":        {free, `[1,null]`, "", ""},
		"no schema, {}":    {free, ``, "", ""},
		"no schema, bad":   {free, `nope`, "input", "must be valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.tool.ValidateInput(json.RawMessage(tc.input))
			if tc.rule == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var invalid *domain.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != tc.field || invalid.Rule != tc.rule {
				t.Errorf("got %v, want %s %s", err, tc.field, tc.rule)
			}
		})
	}
}

func TestValidateInputNamesPlacesInDepthAndStaysShort(t *testing.T) {
	t.Parallel()
	c := parse(t, "tools:\n  a:\n    executor: external\n    inputSchema:\n      properties:\n        list: {items: {$ref: '#/$defs/one'}}\n        when: {format: date-time}\n      $defs: {one: {enum: [1, 2]}}\n")
	tool, _ := c.Tool("a")
	var invalid *domain.InvalidError
	if err := tool.ValidateInput(json.RawMessage(`{"list":[1,3]}`)); !errors.As(err, &invalid) || invalid.Field != "input.list.1" {
		t.Errorf("got %v", err)
	}
	if err := tool.ValidateInput(json.RawMessage(`{"when":"yesterday"}`)); !errors.As(err, &invalid) || invalid.Field != "input.when" {
		t.Errorf("format is not held: %v", err)
	}
	many := `{"list":[` + strings.Repeat(`"`+strings.Repeat("x", 500)+`",`, 100) + `1]}`
	err := tool.ValidateInput(json.RawMessage(many))
	if err == nil || !strings.Contains(err.Error(), "and 97 more") || len(err.Error()) > 1500 {
		t.Errorf("got %d bytes: %.300v", len(err.Error()), err)
	}
}

func TestValidateInputOfAToolBuiltInGo(t *testing.T) {
	t.Parallel()
	tool := config.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"string"}`)}
	if err := tool.ValidateInput(json.RawMessage(`3`)); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	tool.InputSchema = json.RawMessage(`{"type":"strin"}`)
	if err := tool.ValidateInput(json.RawMessage(`3`)); !errors.Is(err, domain.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	known := []string{"ttl", "maxTTL", "maxAttempts", "targets", "description", "exec"}
	for wrong, want := range map[string]string{
		"tll": "ttl", "ttlMs": "ttl", "max_ttl": "maxTTL", "max-attempts": "maxAttempts", "Target": "targets", "desc": "description",
		"exce": "exec", "EXEC": "exec", "maxAtempts": "maxAttempts",
	} {
		if got := config.Suggest(wrong, known); got != "; did you mean "+want+"?" {
			t.Errorf("%s gives %q, want %s", wrong, got, want)
		}
	}
	for _, wrong := range []string{"x", "zebra", ""} {
		if got := config.Suggest(wrong, known); !strings.HasPrefix(got, "; known are ttl, ") {
			t.Errorf("%q gives %q", wrong, got)
		}
	}
	if got := config.Suggest("x", nil); got != "" {
		t.Errorf("got %q", got)
	}
}
