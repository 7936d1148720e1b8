package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Run runs the command line and gives the exit code. The end of ctx interrupts
// whatever runs. Results go to stdout, everything else to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return runWith(ctx, args, stdin, stdout, stderr, env, realDeps())
}

func runWith(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string, d deps) int {
	a := &app{in: stdin, out: stdout, err: stderr, env: env, deps: d, ctx: func() context.Context { return ctx }}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return a.exit
	}
	f := failureOf(ctx, err)
	// A flag that is wrong ends the parsing, perhaps before --json was read.
	f.print(stderr, a.json || slices.Contains(args, "--json"))
	return f.exit()
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "wakepoint",
		Short: "durable tasks for slow tool calls of AI agents",
		Long: `wakepoint makes slow tool calls of AI agents durable: a call becomes a task with
an id, a deadline and a history, which survives the restart of anything.

Try it: wakepoint demo. Use it: wakepoint dev, then in the same folder
wakepoint tools, wakepoint task submit TOOL, wakepoint task watch TASK.`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "write results and errors as JSON")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("run `"+cmd.CommandPath()+" --help`", "%s", flagError(cmd, err))
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Additional help topics", "Help topics"))
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Running:"}, &cobra.Group{ID: groupUse, Title: "Using:"})
	for _, c := range []struct {
		group string
		cmd   *cobra.Command
	}{
		{groupRun, a.demoCommand()},
		{groupRun, a.devCommand()},
		{groupRun, a.workerCommand()},
		{groupRun, a.setupCommand()},
		{groupRun, a.doctorCommand()},
		{groupUse, a.taskCommand()},
		{groupUse, a.runCommand()},
		{groupUse, a.manualCommand()},
		{groupUse, a.reconcileCommand()},
		{groupUse, a.sweepCommand()},
		{groupUse, a.toolsCommand()},
		{groupUse, a.runtimesCommand()},
		{groupUse, a.versionCommand()},
		{"", a.internalTool()},
		{"", a.internalLeash()},
	} {
		c.cmd.GroupID = c.group
		root.AddCommand(c.cmd)
	}
	root.AddCommand(topics()...)
	root.SetHelpCommand(a.helpCommand(root))
	return root
}

// The groups of commands in the help.
const (
	groupRun = "run"
	groupUse = "use"
)

// group makes a command that only holds others.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("run `"+cmd.CommandPath()+" --help`", "%s needs a sub-command", cmd.Name())
			}
			return unknownCommand(cmd, args[0])
		},
	}
	g.AddCommand(commands...)
	return g
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := "run `" + cmd.CommandPath() + " --help`"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean `" + cmd.CommandPath() + " " + near[0] + "`?"
	}
	return usage(hint, "there is no command %q", strings.TrimSpace(cmd.CommandPath()+" "+name))
}

// flagError words what the flag package found as the other errors are worded.
func flagError(cmd *cobra.Command, err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "unknown flag: "); ok {
		text = "there is no flag " + rest
		if near := nearFlag(cmd, strings.TrimLeft(rest, "-")); near != "" {
			text += "; did you mean --" + near + "?"
		}
	}
	// What the number parser of Go says is for programmers.
	if words, _, ok := strings.Cut(text, "strconv."); ok {
		text = words + "must be a number"
	}
	return text
}

// nearFlag finds a flag that begins as the wrong one does, or the other way round.
func nearFlag(cmd *cobra.Command, wrong string) string {
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if near == "" && !f.Hidden && wrong != "" && (strings.HasPrefix(f.Name, wrong) || strings.HasPrefix(wrong, f.Name)) {
			near = f.Name
		}
	})
	return near
}

// exactly wants the named arguments, neither fewer nor more. A name that ends in
// "..." takes all that follow, one at least.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := "usage: " + cmd.UseLine()
		for i, name := range names {
			if i >= len(args) {
				return usage(hint, "argument %s is missing", strings.TrimSuffix(name, "..."))
			}
			if strings.HasSuffix(name, "...") {
				return nil
			}
		}
		if len(args) > len(names) {
			return usage(hint, "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// between wants the first of the named arguments and takes all of them.
func between(first string, rest ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exactly(first)(cmd, args)
		}
		return atMost(1+len(rest))(cmd, args)
	}
}

// atMost wants no more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("usage: "+cmd.UseLine(), "unexpected argument %q", args[n])
		}
		return nil
	}
}

// filled refuses flags that were given without a value, or with 0, where that would
// be taken for none: a script whose variable is empty means something else.
func filled(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.String() != "" && f.Value.String() != "0" {
			continue
		}
		rule := "must be more than 0"
		if f.Value.Type() == "string" {
			if f.Value.String() == "0" {
				continue
			}
			rule = "must not be empty"
		}
		return usage("leave it out for the default", "--%s %s", name, rule)
	}
	return nil
}

// needing runs a command whose flags must be filled when they are given.
func needing(names []string, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := filled(cmd, names...); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// configFlags are those of commands that read the configuration.
func (a *app) configFlags(f *pflag.FlagSet) {
	f.StringVar(&a.configFile, "config", "", "file with the tools (default wakepoint.yaml, or that of the running wakepoint dev)")
	f.StringVar(&a.dataDir, "data", "", "data folder (default that of the configuration, .wakepoint)")
}

// engineFlags are those of commands that talk to an engine.
func (a *app) engineFlags(f *pflag.FlagSet) {
	a.configFlags(f)
	f.StringVar(&a.address, "address", "", "engine, host:port (default that of wakepoint dev here, else "+defaultAddress+")")
	f.StringVar(&a.namespace, "namespace", "", "Temporal namespace (default \"default\")")
	f.StringVar(&a.profile, "profile", "", "profile of Temporal's configuration file")
	f.StringVar(&a.tenant, "tenant", "", "tenant whose tasks and runs these are (default that of the configuration)")
}

// with runs a command on an open connection.
func (a *app) with(need needs, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.deps.connect(cmd.Context(), a, need)
		if err != nil {
			return err
		}
		defer s.close()
		return do(cmd.Context(), s, args)
	}
}

// helpCommand is `wakepoint help`, also for topics.
func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [command|topic]", Short: "help about any command or topic", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("run `wakepoint --help`", "there is no help about %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// exitTable lists the exit codes for the help.
func exitTable() string {
	var b strings.Builder
	for _, e := range exitCodes() {
		fmt.Fprintf(&b, "  %3d  %s\n", e.code, e.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}
