// Command wakepoint makes slow tool calls durable; see docs/cli.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/wakepoint/wakepoint/starter/cli"
	"github.com/wakepoint/wakepoint/worker"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == worker.SuperviseArgument {
		os.Exit(worker.Supervise(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not listen
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
