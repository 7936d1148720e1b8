// Command wakepoint-engine is a Temporal server on SQLite with the Temporal UI; see docs/engine.md.
package main

import (
	"context"
	"os"

	"github.com/wakepoint/wakepoint/engine"
)

func main() {
	os.Exit(engine.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
