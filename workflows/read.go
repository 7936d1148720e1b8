package workflows

import (
	"encoding/json"
	"errors"
	"reflect"

	"go.temporal.io/sdk/workflow"

	"github.com/wakepoint/wakepoint/domain"
)

// Messages come in as raw JSON and are read here, not by the SDK: whoever calls
// from another language then learns which field is wrong, with the same error
// as for every other mistake.

// answers makes the handler of an update.
func answers[T any](read func(json.RawMessage) (T, error), f func(T) (domain.Outcome, error)) func(workflow.Context, json.RawMessage) (domain.Outcome, error) {
	return func(_ workflow.Context, raw json.RawMessage) (domain.Outcome, error) {
		m, err := read(raw)
		if err != nil {
			return domain.Outcome{}, asApplicationError(err)
		}
		out, err := f(m)
		return out, asApplicationError(err)
	}
}

// admits makes the validator of an update.
func admits[T any](read func(json.RawMessage) (T, error), f func(T) error) func(workflow.Context, json.RawMessage) error {
	return func(_ workflow.Context, raw json.RawMessage) error {
		m, err := read(raw)
		if err != nil {
			return asApplicationError(err)
		}
		return asApplicationError(f(m))
	}
}

// read decodes a message. Members that are not known are passed over.
func read[T any](raw json.RawMessage) (T, error) {
	var m T
	err := json.Unmarshal(raw, &m)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil && string(raw) == "null":
		return m, domain.Invalid("message", "must be a JSON object, not null")
	case err == nil:
		return m, nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return m, domain.Invalid(wrong.Field, "must be %s, not %s", nameOf(wrong.Type), wrong.Value)
	case errors.As(err, &wrong):
		return m, domain.Invalid("message", "must be a JSON object, not %s", wrong.Value)
	}
	return m, domain.Invalid("message", "must be a JSON object: %v", err)
}

func nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "an integer of at most 64 bits"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	default:
		return "an object"
	}
}

// readCallback decodes a callback. A repeat is answered before its event is
// looked at, so an event that cannot be read makes no difference to it.
func (r *task) readCallback(raw json.RawMessage) (domain.Callback, error) {
	c, err := read[domain.Callback](raw)
	if err == nil {
		return c, nil
	}
	if _, seen := r.ledger.Seen(c.CallbackID); seen {
		return domain.Callback{CallbackID: c.CallbackID, DeliveryID: c.DeliveryID}, nil
	}
	return c, err
}
