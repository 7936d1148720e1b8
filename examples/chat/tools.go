package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain/run"
)

// Tool is one that a model may call: a tool of the installation under a name that models
// can write.
type Tool struct {
	// Name is the one of Wakepoint.
	Name string
	Function
}

// maxFunctionName is how long the name of a function may be (OpenAI).
const maxFunctionName = 64

// askTool is the question to a person that every run can ask.
var askTool = Tool{
	Name: run.ToolAsk,
	Function: Function{
		Description: "Asks the person whom you work for a question and waits for the answer, for days if need be.",
		Parameters: json.RawMessage(`{
			"type": "object", "required": ["prompt"], "additionalProperties": false,
			"properties": {
				"prompt": {"type": "string", "description": "the question"},
				"schema": {"type": "object", "description": "a JSON Schema of the answer, if it has a form"}
			}
		}`),
	},
}

// Tools offers declared tools, of the given names only if there are any, and the question
// to a person.
func Tools(declared []config.Tool, names []string) ([]Tool, error) {
	for _, name := range names {
		if !slices.ContainsFunc(declared, func(t config.Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("no tool %q is declared", name)
		}
	}
	tools := []Tool{askTool}
	for _, t := range declared {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		parameters := t.InputSchema
		if len(parameters) == 0 {
			// Any object: a function without parameters is called without any.
			parameters = json.RawMessage(`{"type":"object","additionalProperties":true}`)
		}
		about := t.Description
		if about == "" {
			about = t.Title
		}
		tools = append(tools, Tool{t.Name, Function{Description: about, Parameters: parameters}})
	}
	// A name that needs no change is kept, whatever stands before it.
	taken := map[string]bool{}
	for i := range tools {
		if name := tools[i].Name; !strings.Contains(name, ".") {
			tools[i].Function.Name = functionName(name, taken)
		}
	}
	for i := range tools {
		if tools[i].Function.Name == "" {
			tools[i].Function.Name = functionName(tools[i].Name, taken)
		}
	}
	return tools, nil
}

// functionName makes a name of letters, digits, _ and - alone, unlike those taken.
func functionName(name string, taken map[string]bool) string {
	base := strings.ReplaceAll(name, ".", "_")
	out := base[:min(len(base), maxFunctionName)]
	for n := 2; taken[out]; n++ {
		suffix := "_" + strconv.Itoa(n)
		out = base[:min(len(base), maxFunctionName-len(suffix))] + suffix
	}
	taken[out] = true
	return out
}
