package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/domain"
)

// checkCalls refuses a broken graph as a whole: a repeated id, a dependency on what is
// not there, a cycle. What the model got wrong about a tool is no such thing; it comes
// back as a result.
func checkCalls(calls []ToolCall) error {
	if len(calls) > MaxStepCalls {
		return domain.Invalid("toolCalls", "must be at most %d, there are %d", MaxStepCalls, len(calls))
	}
	ids := make([]string, 0, len(calls))
	for i, c := range calls {
		at := "toolCalls[" + strconv.Itoa(i) + "]"
		if err := c.validate(at); err != nil {
			return err
		}
		if slices.Contains(ids, c.ToolCallID) {
			return domain.Invalid(at+".toolCallId", "must be unique within its step, %q is there already", c.ToolCallID)
		}
		ids = append(ids, c.ToolCallID)
	}
	for i, c := range calls {
		at := "toolCalls[" + strconv.Itoa(i) + "]"
		for _, d := range c.DependsOn {
			if !slices.Contains(ids, d) {
				return domain.Invalid(at+".dependsOn", "must name calls of the same step, %q is none", d)
			}
		}
	}
	if cycle := findCycle(calls); cycle != "" {
		return domain.Invalid("toolCalls", "must not depend on one another in a cycle: %s", cycle)
	}
	return nil
}

// checkReferences checks the inputs of a plan, whose author is there to mend them. What a
// model writes into an input is for its call to fail with.
func checkReferences(calls []ToolCall) error {
	for i, c := range calls {
		at := "toolCalls[" + strconv.Itoa(i) + "]"
		refs, err := References(c.Input)
		if err != nil {
			return domain.Invalid(at+".input", "%s", err.Error())
		}
		for _, ref := range refs {
			if !slices.Contains(c.DependsOn, ref.From) {
				return domain.Invalid(at+".input", "must refer to results of calls in dependsOn, %q is none", ref.From)
			}
		}
	}
	return nil
}

func (c ToolCall) validate(at string) error {
	if err := checkText(at+".toolCallId", c.ToolCallID, domain.MaxCallbackID, true); err != nil {
		return err
	}
	if err := checkText(at+".tool", c.Tool, MaxText, true); err != nil {
		return err
	}
	if err := checkText(at+".idempotencyKey", c.IdempotencyKey, domain.MaxRef, false); err != nil {
		return err
	}
	switch {
	case len(c.Input) > MaxCallInput:
		return domain.Invalid(at+".input", "must be at most %d bytes, it has %d", MaxCallInput, len(c.Input))
	case len(c.Input) > 0 && !json.Valid(c.Input):
		return domain.Invalid(at+".input", "must be valid JSON")
	case c.WaitMs < 0 || c.WaitMs > longest:
		return domain.Invalid(at+".waitMs", "must be >= 0, it is %d", c.WaitMs)
	case c.TTLMs < 0 || c.TTLMs > longest:
		return domain.Invalid(at+".ttlMs", "must be >= 0, it is %d", c.TTLMs)
	case c.Background && c.WaitMs > 0:
		return domain.Invalid(at+".waitMs", "must be absent for a background call, which is not waited for")
	case len(c.DependsOn) > MaxStepCalls:
		return domain.Invalid(at+".dependsOn", "must be at most %d", MaxStepCalls)
	}
	return nil
}

// findCycle gives the ids along a cycle, or "".
func findCycle(calls []ToolCall) string {
	const visiting, done = 1, 2
	state := make([]int, len(calls))
	index := func(id string) int {
		return slices.IndexFunc(calls, func(c ToolCall) bool { return c.ToolCallID == id })
	}
	var visit func(i int, path []string) string
	visit = func(i int, path []string) string {
		path = append(path, calls[i].ToolCallID)
		switch state[i] {
		case done:
			return ""
		case visiting:
			return strings.Join(path[slices.Index(path, calls[i].ToolCallID):], " -> ")
		}
		state[i] = visiting
		for _, d := range calls[i].DependsOn {
			if c := visit(index(d), path); c != "" {
				return c
			}
		}
		state[i] = done
		return ""
	}
	for i := range calls {
		if c := visit(i, nil); c != "" {
			return c
		}
	}
	return ""
}

// Reference stands in an input for the result of another call, or a part of it.
type Reference struct {
	// From is the tool call id, Pointer a JSON pointer (RFC 6901) into its result.
	From    string
	Pointer string
}

// memberFrom marks a reference in an input.
const (
	memberFrom    = "$from"
	memberPointer = "pointer"
)

// References lists the references of an input in order. Input that is no JSON has none.
func References(input json.RawMessage) ([]Reference, error) {
	var refs []Reference
	_, err := mapReferences(input, func(r Reference) (json.RawMessage, error) {
		refs = append(refs, r)
		return json.RawMessage("null"), nil
	})
	return refs, err
}

// Resolve replaces each reference by what get gives for it.
func Resolve(input json.RawMessage, get func(Reference) (json.RawMessage, error)) (json.RawMessage, error) {
	return mapReferences(input, get)
}

func mapReferences(input json.RawMessage, get func(Reference) (json.RawMessage, error)) (json.RawMessage, error) {
	// Most inputs have none, and are left as they are, byte for byte.
	if !strings.Contains(string(input), memberFrom) || !json.Valid(input) {
		return input, nil
	}
	return mapValue(input, get, 0)
}

// maxDepth bounds how deep a reference may stand.
const maxDepth = 64

func mapValue(v json.RawMessage, get func(Reference) (json.RawMessage, error), depth int) (json.RawMessage, error) {
	trimmed := strings.TrimLeft(string(v), " \t\r\n")
	if trimmed == "" || depth > maxDepth {
		return v, nil
	}
	switch trimmed[0] {
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(v, &items); err != nil {
			return nil, err
		}
		for i := range items {
			mapped, err := mapValue(items[i], get, depth+1)
			if err != nil {
				return nil, err
			}
			items[i] = mapped
		}
		return json.Marshal(items)
	case '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(v, &members); err != nil {
			return nil, err
		}
		if from, is := members[memberFrom]; is {
			ref, err := readReference(from, members)
			if err != nil {
				return nil, err
			}
			return get(ref)
		}
		for _, name := range sortedNames(members) {
			mapped, err := mapValue(members[name], get, depth+1)
			if err != nil {
				return nil, err
			}
			members[name] = mapped
		}
		return json.Marshal(members)
	}
	return v, nil
}

func sortedNames(m map[string]json.RawMessage) []string {
	return slices.Sorted(maps.Keys(m)) //workflowcheck:ignore // sorted, the order of the map is not seen
}

func readReference(from json.RawMessage, members map[string]json.RawMessage) (Reference, error) {
	var ref Reference
	if err := json.Unmarshal(from, &ref.From); err != nil || ref.From == "" {
		return ref, fmt.Errorf("must have the id of a call as the text of each %s", memberFrom)
	}
	for _, name := range sortedNames(members) {
		switch name {
		case memberFrom:
		case memberPointer:
			if err := json.Unmarshal(members[name], &ref.Pointer); err != nil || ref.Pointer != "" && ref.Pointer[0] != '/' {
				return ref, fmt.Errorf("must have a JSON pointer (RFC 6901) as each %s of a reference", memberPointer)
			}
		default:
			return ref, fmt.Errorf("must have nothing beside %s and %s in a reference, there is %q", memberFrom, memberPointer, name)
		}
	}
	return ref, nil
}

// Point finds what a JSON pointer (RFC 6901) names.
func Point(v json.RawMessage, pointer string) (json.RawMessage, error) {
	if pointer == "" {
		return v, nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = unescape.Replace(token)
		var members map[string]json.RawMessage
		var items []json.RawMessage
		switch {
		case json.Unmarshal(v, &members) == nil && members != nil:
			next, ok := members[token]
			if !ok {
				return nil, fmt.Errorf("the result has nothing at %s", pointer)
			}
			v = next
		case json.Unmarshal(v, &items) == nil && items != nil:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(items) || strconv.Itoa(i) != token {
				return nil, fmt.Errorf("the result has nothing at %s", pointer)
			}
			v = items[i]
		default:
			return nil, fmt.Errorf("the result has nothing at %s", pointer)
		}
	}
	return v, nil
}
