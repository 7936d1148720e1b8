package cli

import (
	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter/cli/demo"
	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// The commands that only this program itself runs.
const (
	commandTool  = "internal-tool"
	commandLeash = "internal-leash"
)

// internalTool runs a tool of the demo.
func (a *app) internalTool() *cobra.Command {
	return &cobra.Command{
		Use: commandTool + " NAME", Short: "run a tool of the demo", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.exit = demo.RunTool(cmd.Context(), args, a.in, a.out, a.err, a.env)
			return nil
		},
	}
}

// internalLeash runs a program for as long as standard input is open.
func (a *app) internalLeash() *cobra.Command {
	return &cobra.Command{
		Use: commandLeash + " PROGRAM...", Short: "run a program until standard input ends", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) (err error) {
			a.exit, err = dev.Leash(args, a.in, a.out, a.err)
			return err
		},
	}
}
