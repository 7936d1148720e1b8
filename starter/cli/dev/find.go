package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Kind is what kind of engine it is.
type Kind string

// The kinds of engines.
const (
	// KindOwn is the embedded engine, wakepoint-engine.
	KindOwn Kind = "wakepoint-engine"
	// KindTemporal is somebody's `temporal` command line tool.
	KindTemporal Kind = "temporal"
	// KindOutside is a cluster that runs already, at an address.
	KindOutside Kind = "outside"
)

// EnvEngine is the environment variable that names the program of the engine.
const EnvEngine = "WAKEPOINT_ENGINE"

// EngineAuto looks for an engine in the usual places.
const EngineAuto = "auto"

// ErrNoEngine is that no engine could be found, or that what was named is none.
var ErrNoEngine = errors.New("no engine")

// Engine is how an engine is run or reached.
type Engine struct {
	Kind Kind
	// Path is the program of an engine to be started.
	Path string
	// Version is what the program says of itself.
	Version string
	// Address is the host:port of an engine that runs already.
	Address string
}

// Search is where [Search.Engine] looks.
type Search struct {
	// Self is the path of this program: the engine usually lies beside it.
	Self string
	// Named is a path that the environment names (WAKEPOINT_ENGINE), or empty.
	Named string
	// Path is the search path of programs, as in PATH.
	Path string
}

// Engine finds the engine that spec asks for: "auto" or nothing, the path of a
// program, or host:port. Auto takes the program that the environment names,
// else wakepoint-engine beside this program or in the search path, else a
// `temporal` command there.
func (s Search) Engine(ctx context.Context, spec string) (Engine, error) {
	if spec == "" || spec == EngineAuto {
		return s.auto(ctx)
	}
	if info, err := os.Stat(spec); err == nil && !info.IsDir() {
		return identify(ctx, spec)
	}
	if host, port, err := net.SplitHostPort(spec); err == nil && port != "" && !strings.Contains(host, "/") {
		return Engine{Kind: KindOutside, Address: spec}, nil
	}
	if !strings.Contains(spec, "/") {
		if path, ok := s.lookPath(spec); ok {
			return identify(ctx, path)
		}
	}
	return Engine{}, fmt.Errorf("%w: %q is neither a program nor host:port", ErrNoEngine, spec)
}

func (s Search) auto(ctx context.Context) (Engine, error) {
	if s.Named != "" {
		return identify(ctx, s.Named)
	}
	beside := filepath.Join(filepath.Dir(s.Self), string(KindOwn))
	if s.Self != "" && executable(beside) {
		return identify(ctx, beside)
	}
	for _, name := range []Kind{KindOwn, KindTemporal} {
		if path, ok := s.lookPath(string(name)); ok {
			return identify(ctx, path)
		}
	}
	return Engine{}, fmt.Errorf("%w: there is no %s beside %s or in PATH, and no %s command in PATH", ErrNoEngine, KindOwn, s.Self, KindTemporal)
}

// lookPath finds a program. [exec.LookPath] reads the environment of the
// process, which is not the one that the commands are given.
func (s Search) lookPath(name string) (string, bool) {
	for _, dir := range filepath.SplitList(s.Path) {
		// A relative folder would run whatever lies where one happens to stand.
		if path := filepath.Join(dir, name); filepath.IsAbs(path) && executable(path) {
			return path, true
		}
	}
	return "", false
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// identifyTimeout bounds the question for a version. The embedded engine is a
// large program, and a disk may be slow on the first read.
const identifyTimeout = 20 * time.Second

// identify asks a program what it is.
func identify(ctx context.Context, path string) (Engine, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Engine{}, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, abs, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Engine{}, fmt.Errorf("%w: %s does not give its version: %w", ErrNoEngine, abs, err)
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case strings.HasPrefix(version, string(KindOwn)):
		return Engine{Kind: KindOwn, Path: abs, Version: version}, nil
	case strings.HasPrefix(version, "temporal version"):
		return Engine{Kind: KindTemporal, Path: abs, Version: version}, nil
	}
	return Engine{}, fmt.Errorf("%w: %s is neither %s nor a temporal command", ErrNoEngine, abs, KindOwn)
}
