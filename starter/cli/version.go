package cli

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
	"github.com/wakepoint/wakepoint/starter/cli/term"
)

// version is set by the linker, see the Makefile.
var version = "dev"

// versionJSON is what `wakepoint version --json` prints.
type versionJSON struct {
	Version string `json:"version"`
	// Commit is what the program was built from, if the build knew it.
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Engine is the one that `wakepoint dev` would start.
	Engine *engineJSON `json:"engine,omitempty"`
}

type engineJSON struct {
	Kind    dev.Kind `json:"kind"`
	Version string   `json:"version"`
	Path    string   `json:"path"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the versions of this program and of its engine", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.version(cmd.Context()) },
	}
}

func (a *app) version(ctx context.Context) error {
	v := versionJSON{Version: version, Commit: commit(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	engine := "none found"
	e, err := a.search().Engine(ctx, dev.EngineAuto)
	switch {
	case err == nil:
		v.Engine = &engineJSON{Kind: e.Kind, Version: e.Version, Path: e.Path}
		engine = e.Version + ", " + e.Path
	case !errors.Is(err, dev.ErrNoEngine):
		return err
	}
	if a.json {
		return a.printJSON(v)
	}
	term.Fields(a.out, []term.Field{
		{Name: "wakepoint", Value: v.Version}, {Name: "commit", Value: v.Commit}, {Name: "go", Value: v.Go + " " + v.Platform}, {Name: "engine", Value: engine},
	})
	return nil
}

// commit is what the go command recorded.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with changes"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}
