package cli

import "github.com/spf13/cobra"

// topics are pages of help that are no commands.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "what the exit codes mean", Long: "Exit codes:\n\n" + exitTable()},
		{Use: "connection", Short: "how the engine is found", Long: `The engine is looked for in this order:

  1. --address, or the profile that --profile names
  2. TEMPORAL_ADDRESS, or the profile that TEMPORAL_PROFILE names
  3. the engine of the wakepoint dev that runs in the data folder
  4. the default profile of Temporal's configuration file
  5. ` + defaultAddress + `, unless the data folder has the data of an engine that
     is not running

The environment variables and the configuration file are those of Temporal's own
tools: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_PROFILE,
TEMPORAL_CONFIG_FILE, TEMPORAL_TLS_... --namespace wins over all of them.

The data folder is that of --data, of ` + envData + `, of the configuration, or
.wakepoint. The configuration is that of --config, of ` + envConfig + `, the file
wakepoint.yaml in the current folder, or that of the running wakepoint dev.
` + envUI + ` says where the Temporal UI is, for links.
` + envEngine + ` names the program of the embedded engine.`},
	}
}
