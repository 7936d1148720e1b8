package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/wakepoint/wakepoint/domain"
)

// schema is a compiled JSON Schema; nil takes anything.
type schema struct{ compiled *jsonschema.Schema }

// schemaURL is the base of a schema's own references. Nothing is read from it.
const schemaURL = "wakepoint:///input.schema.json"

var errOutside = errors.New("a $ref must stay within the schema: nothing is loaded from files or the network")

// closed loads nothing. A schema that could name files or addresses would make
// whoever writes it read what the process can read.
type closed struct{}

func (closed) Load(string) (any, error) { return nil, errOutside }

func compileSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("must be valid JSON")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(closed{})
	// By the standard, format is only a note. An operator who writes one means it.
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("must be a JSON Schema: %w", plainSchemaError(err))
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("must be a JSON Schema: %w", plainSchemaError(err))
	}
	return &schema{compiled: compiled}, nil
}

// plainSchemaError makes one line of the library's error, without our base URL.
func plainSchemaError(err error) error {
	var meta *jsonschema.SchemaValidationError
	var broken *jsonschema.ValidationError
	var outside *jsonschema.LoadURLError
	switch {
	case errors.As(err, &outside):
		return fmt.Errorf("%w, so not from %s", errOutside, quote(outside.URL))
	case errors.As(err, &meta) && errors.As(meta.Err, &broken):
		first := leaves(broken)[0]
		return fmt.Errorf("%s %s", pointer("schema", first.InstanceLocation), reason(first))
	}
	return errors.New(strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), schemaURL, "")), " "))
}

// shown is how many broken rules one error names.
const shown = 3

func (s *schema) validate(raw json.RawMessage) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return domain.Invalid("input", "must be valid JSON")
	}
	if s == nil {
		return nil
	}
	err = s.compiled.Validate(doc)
	if err == nil {
		return nil
	}
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return domain.Invalid("input", "must match the tool's schema: %v", err)
	}
	all := leaves(broken)
	var rules []string
	for i, l := range all[:min(len(all), shown)] {
		rule := reason(l)
		if i > 0 {
			rule = pointer("input", l.InstanceLocation) + " " + rule
		}
		rules = append(rules, rule)
	}
	if more := len(all) - shown; more > 0 {
		rules = append(rules, fmt.Sprintf("and %d more", more))
	}
	return domain.Invalid(pointer("input", all[0].InstanceLocation), "must match the tool's schema: %s", strings.Join(rules, "; "))
}

// CheckSchema says whether something is a JSON Schema that values can be held against. It
// may refer to nothing outside of itself.
func CheckSchema(raw json.RawMessage) error {
	_, err := compileSchema(raw)
	return err
}

// Match holds a value against a JSON Schema. The error is a [domain.InvalidError] about
// the field.
func Match(field string, schema, value json.RawMessage) error {
	s, err := compileSchema(schema)
	if err != nil {
		return domain.Invalid(field, "cannot be checked: %v", err)
	}
	err = s.validate(value)
	var invalid *domain.InvalidError
	if errors.As(err, &invalid) {
		return domain.Invalid(field+strings.TrimPrefix(invalid.Field, "input"), "%s", strings.Replace(invalid.Rule, "the tool's schema", "the schema", 1))
	}
	return err
}

// leaves are the rules that were broken in the end, by place: the library goes
// through the members of an object in Go's random order.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	all := unordered(e)
	slices.SortStableFunc(all, func(a, b *jsonschema.ValidationError) int {
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	})
	return all
}

func unordered(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, c := range e.Causes {
		all = append(all, unordered(c)...)
	}
	return all
}

// reason is what the library says of one broken rule, shortened: it may quote the
// input.
func reason(leaf *jsonschema.ValidationError) string {
	const limit = 200
	text := leaf.BasicOutput().Error.String()
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// pointer is a place in JSON in the way of all our fields, with dots.
func pointer(root string, parts []string) string {
	const limit = 200
	s := strings.Join(append([]string{root}, parts...), ".")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
