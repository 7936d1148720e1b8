package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) toolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tools [TOOL]", Short: "list the declared tools, or show one", Args: atMost(1), ValidArgsFunction: a.completeTools,
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.tool(cfg, args[0])
			}
			return a.tools(cfg)
		},
	}
	a.configFlags(cmd.Flags())
	cmd.AddCommand(a.tryCommand())
	return cmd
}

func (a *app) tools(cfg *config.Config) error {
	if a.json {
		list := cfg.Tools
		if list == nil {
			list = []config.Tool{}
		}
		return a.printJSON(map[string]any{"tools": list})
	}
	if len(cfg.Tools) == 0 {
		a.say("no tool is declared")
		if cfg.File == "" {
			a.say("hint: declare some in " + config.FileName + ", see docs/config.md")
		}
		return nil
	}
	rows := make([][]string, 0, len(cfg.Tools))
	for _, t := range cfg.Tools {
		rows = append(rows, []string{t.Name, t.Executor, string(t.Policy.Effects), config.FormatDuration(t.TTL), fmt.Sprint(t.MaxAttempts), t.Title})
	}
	term.Table(a.out, []string{"TOOL", "EXECUTOR", "EFFECTS", "TTL", "ATTEMPTS", "TITLE"}, rows)
	return nil
}

// declared finds a tool, or says which there are.
func declared(cfg *config.Config, name string) (config.Tool, error) {
	t, ok := cfg.Tool(name)
	if ok {
		return t, nil
	}
	var known []string
	for _, k := range cfg.Tools {
		known = append(known, k.Name)
	}
	return t, failf("unknown-tool", "list the tools: wakepoint tools", "no tool %q is declared%s", name, config.Suggest(name, known))
}

func (a *app) tool(cfg *config.Config, name string) error {
	t, err := declared(cfg, name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(t)
	}
	priority := ""
	if t.Priority > 0 {
		priority = fmt.Sprint(t.Priority)
	}
	term.Fields(a.out, []term.Field{
		{Name: "tool", Value: t.Name},
		{Name: "title", Value: t.Title},
		{Name: "description", Value: t.Description},
		{Name: "version", Value: t.Version},
		{Name: "executor", Value: t.Executor},
		{Name: "effects", Value: string(t.Policy.Effects)},
		{Name: "ttl", Value: config.FormatDuration(t.TTL) + ", at most " + config.FormatDuration(t.MaxTTL)},
		{Name: "attempts", Value: fmt.Sprint(t.MaxAttempts)},
		{Name: "priority", Value: priority},
		{Name: "task queue", Value: t.TaskQueue},
		{Name: "limits", Value: limits(t)},
		{Name: "cache", Value: cached(t)},
		{Name: "undone by", Value: t.Compensate},
		{Name: "input schema", Value: string(t.InputSchema)},
	})
	a.say("hint: wakepoint task submit %s --wait", submission(t))
	return nil
}

// limits says how much of a tool runs at a time.
func limits(t config.Tool) string {
	concurrent := ""
	if t.MaxConcurrent > 0 {
		concurrent = fmt.Sprintf("%d at a time on each worker", t.MaxConcurrent)
	}
	return join(", ", concurrent, t.Rate.String())
}

func cached(t config.Tool) string {
	if t.Cache == nil {
		return ""
	}
	return "equal calls share a result for " + config.FormatDuration(t.Cache.TTL)
}

// schemaTop is what a hint needs of an input schema.
type schemaTop struct {
	Properties map[string]struct {
		// Type is a name, or a list of names.
		Type any `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

func topOf(t config.Tool) schemaTop {
	var top schemaTop
	// A schema that reads otherwise is only hinted at less.
	_ = json.Unmarshal(t.InputSchema, &top)
	return top
}

// submission is the name of a tool and the arguments that it cannot do without,
// as they are given to submit.
func submission(t config.Tool) string {
	top := topOf(t)
	words := []string{t.Name}
	for _, name := range top.Required {
		arg := name + "=…"
		if kind := top.Properties[name].Type; kind != nil && kind != "string" {
			arg = name + ":=…"
		}
		words = append(words, "--arg "+arg)
	}
	return strings.Join(words, " ")
}

// tryFirst is the tool that a newcomer is shown: one that runs here and needs no
// input, else the first.
func tryFirst(tools []config.Tool) config.Tool {
	i := slices.IndexFunc(tools, func(t config.Tool) bool {
		return t.Executor == config.ExecutorExec && len(topOf(t).Required) == 0
	})
	return tools[max(i, 0)]
}
