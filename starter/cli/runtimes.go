package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) runtimesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "runtimes [RUNTIME]", Short: "list the declared agent runtimes, or show one", Args: atMost(1), ValidArgsFunction: a.completeRuntimes,
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.runtime(cfg, args[0])
			}
			return a.runtimes(cfg)
		},
	}
	a.configFlags(cmd.Flags())
	return cmd
}

func (a *app) runtimes(cfg *config.Config) error {
	if a.json {
		list := cfg.Runtimes
		if list == nil {
			list = []config.Runtime{}
		}
		return a.printJSON(map[string]any{"runtimes": list})
	}
	if len(cfg.Runtimes) == 0 {
		a.say("no runtime is declared")
		a.say("hint: declare some in %s, see docs/runs.md; a run that follows a file needs none: wakepoint run start -f FILE", config.FileName)
		return nil
	}
	rows := make([][]string, 0, len(cfg.Runtimes))
	for _, r := range cfg.Runtimes {
		rows = append(rows, []string{r.Name, string(r.Mode()), r.Version, config.FormatDuration(r.TTL), fmt.Sprint(r.Limits.MaxSteps), r.Title})
	}
	term.Table(a.out, []string{"RUNTIME", "MODE", "VERSION", "TTL", "STEPS", "TITLE"}, rows)
	return nil
}

func (a *app) runtime(cfg *config.Config, name string) error {
	r, ok := cfg.Runtime(name)
	if !ok {
		var known []string
		for _, k := range cfg.Runtimes {
			known = append(known, k.Name)
		}
		return failf(string(starter.CodeUnknownRuntime), "list the runtimes: wakepoint runtimes", "no runtime %q is declared%s", name, config.Suggest(name, known))
	}
	if a.json {
		return a.printJSON(r)
	}
	timeout := ""
	if r.StepTimeout > 0 {
		timeout = config.FormatDuration(r.StepTimeout)
	}
	l := r.Limits
	f := []term.Field{
		{Name: "runtime", Value: r.Name},
		{Name: "title", Value: r.Title},
		{Name: "description", Value: r.Description},
		{Name: "version", Value: r.Version},
		{Name: "mode", Value: string(r.Mode())},
		{Name: "ttl", Value: config.FormatDuration(r.TTL)},
		{Name: "lease", Value: config.FormatDuration(r.Lease)},
		{Name: "step timeout", Value: timeout},
		{Name: "step attempts", Value: fmt.Sprint(r.StepAttempts)},
		{Name: "cancel grace", Value: config.FormatDuration(r.CancelGrace)},
		{Name: "failed needs", Value: r.OnFailedDependency},
		{Name: "steps", Value: fmt.Sprintf("at most %d", l.MaxSteps)},
		{Name: "calls", Value: fmt.Sprintf("at most %d, %d open", l.MaxCalls, l.MaxOpenCalls)},
	}
	if l.MaxTokens > 0 {
		f = append(f, term.Field{Name: "tokens", Value: fmt.Sprintf("at most %d", l.MaxTokens)})
	}
	if l.MaxCostUSD > 0 {
		f = append(f, term.Field{Name: "cost", Value: fmt.Sprintf("at most %v USD", l.MaxCostUSD)})
	}
	term.Fields(a.out, f)
	a.say("hint: wakepoint run start %s", r.Name)
	return nil
}

// completeRuntimes completes the names of runtimes for shells.
func (a *app) completeRuntimes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.config()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range cfg.Runtimes {
		names = append(names, r.Name+"\t"+r.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
