package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

func (a *app) setupCommand() *cobra.Command {
	var retention duration
	cmd := &cobra.Command{
		Use: "setup", Short: "prepare the namespace and the search attributes of a cluster", Args: exactly(),
		Long: `Prepares a Temporal cluster for Wakepoint: the namespace and the search attributes,
only what is missing. Done twice it makes nothing twice. wakepoint dev does it by
itself.`,
		RunE: needing([]string{"retention"}, func(cmd *cobra.Command, _ []string) error { return a.setup(cmd.Context(), retention) }),
	}
	a.engineFlags(cmd.Flags())
	cmd.Flags().Var(&retention, "retention", "how long a namespace that is made keeps what has ended (default 7d)")
	return cmd
}

// warnOfLifetimes says which results are to be kept for longer than their tasks. They
// cannot be found then, which harms nothing else, so it is no failure.
func warnOfLifetimes(say func(format string, args ...any), cfg *config.Config, retention time.Duration) {
	who, longest := "the installation", cfg.ResultTTL
	for _, t := range cfg.Tools {
		if t.ResultTTL > longest {
			who, longest = "tool "+t.Name, t.ResultTTL
		}
	}
	if longest > retention {
		say("note: resultTTL of %s is %s, but results can be found for %s only: the namespace forgets their tasks then",
			who, config.FormatDuration(longest), config.FormatDuration(retention))
	}
}

func (a *app) setup(ctx context.Context, retention duration) error {
	a.waits = true
	cfg, err := a.config()
	if err != nil {
		return err
	}
	e, err := a.endpoint(cfg.DataDir)
	if err != nil {
		return err
	}
	c, err := e.dial(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := starter.Setup(ctx, c, starter.SetupOptions{Namespace: e.options.Namespace, Retention: retention.Duration})
	if err != nil {
		return err
	}
	warnOfLifetimes(a.say, cfg, r.Retention)
	if a.json {
		return a.printJSON(r)
	}
	was := "was there"
	if r.NamespaceCreated {
		was = "made"
	}
	term.Fields(a.out, []term.Field{
		{Name: "engine", Value: e.options.HostPort},
		{Name: "namespace", Value: r.Namespace + ", " + was + ", keeps what has ended for " + config.FormatDuration(r.Retention)},
		{Name: "attributes made", Value: strings.Join(r.AttributesAdded, ", ")},
		{Name: "attributes there", Value: strings.Join(r.AttributesPresent, ", ")},
	})
	return nil
}
