package config_test

import (
	"encoding/json"
	"fmt"

	"github.com/wakepoint/wakepoint/config"
)

func ExampleParse() {
	c, err := config.Parse("wakepoint.yaml", []byte(`
tools:
  count:
    exec: {argv: [wc, -l]}
    ttl: 10m
  approve:
    executor: external
    ttl: 3d
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range c.Tools {
		fmt.Println(t.Name, t.Executor, config.FormatDuration(t.TTL))
	}
	// Output:
	// count exec 10m
	// approve external 3d
}

func ExampleParse_mistakes() {
	_, err := config.Parse("wakepoint.yaml", []byte(`
tools:
  count:
    exec: {argv: [wc, -l]}
    tll: 10m
  approve:
    executor: external
    ttl: 90d
`))
	fmt.Println(err)
	// Output:
	// wakepoint.yaml:5:5: tools.count.tll: is not a known key; did you mean ttl?
	// wakepoint.yaml:8:10: tools.approve.ttl: must be at most maxTTL, 30d; it is 90d
}

func ExampleTool_ValidateInput() {
	tool := config.Tool{Name: "vet", InputSchema: json.RawMessage(`{"properties": {"dir": {"type": "string"}}}`)}
	fmt.Println(tool.ValidateInput(json.RawMessage(`{"dir": 3}`)))
	// Output:
	// invalid-request: input.dir must match the tool's schema: got number, want string
}
