package dev_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

func TestSearchFindsAnEngine(t *testing.T) {
	t.Parallel()
	own, temporal := program(t, "wakepoint-engine"), program(t, "temporal")
	beside := filepath.Join(filepath.Dir(own), "wakepoint")
	elsewhere := filepath.Join(t.TempDir(), "wakepoint")
	other := program(t, "something")
	for name, c := range map[string]struct {
		search dev.Search
		spec   string
		want   dev.Engine
		err    string
	}{
		"beside this program": {search: dev.Search{Self: beside}, want: dev.Engine{Kind: dev.KindOwn, Path: own}},
		"auto by name":        {search: dev.Search{Self: beside}, spec: "auto", want: dev.Engine{Kind: dev.KindOwn, Path: own}},
		"named by the environment": {
			search: dev.Search{Self: beside, Named: temporal}, want: dev.Engine{Kind: dev.KindTemporal, Path: temporal},
		},
		"in the path": {search: dev.Search{Self: elsewhere, Path: filepath.Dir(own)}, want: dev.Engine{Kind: dev.KindOwn, Path: own}},
		"ours before temporal": {
			search: dev.Search{Self: elsewhere, Path: filepath.Dir(temporal) + ":" + filepath.Dir(own)}, want: dev.Engine{Kind: dev.KindOwn, Path: own},
		},
		"temporal in the path":  {search: dev.Search{Self: elsewhere, Path: filepath.Dir(temporal)}, want: dev.Engine{Kind: dev.KindTemporal, Path: temporal}},
		"a relative path entry": {search: dev.Search{Self: elsewhere, Path: "."}, err: "there is no wakepoint-engine beside"},
		"nothing":               {search: dev.Search{Self: elsewhere}, err: "there is no wakepoint-engine beside"},
		"a program":             {spec: temporal, want: dev.Engine{Kind: dev.KindTemporal, Path: temporal}},
		"a name in the path":    {search: dev.Search{Path: filepath.Dir(temporal)}, spec: "temporal", want: dev.Engine{Kind: dev.KindTemporal, Path: temporal}},
		"an address":            {spec: "cluster.example:7233", want: dev.Engine{Kind: dev.KindOutside, Address: "cluster.example:7233"}},
		"another program":       {spec: other, err: "is neither wakepoint-engine nor a temporal command"},
		"no program":            {spec: "/nowhere/engine", err: "is neither a program nor host:port"},
		"a missing named one":   {search: dev.Search{Named: "/nowhere/engine"}, err: "does not give its version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.search.Engine(t.Context(), c.spec)
			if c.err != "" {
				if !errors.Is(err, dev.ErrNoEngine) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("the error is %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.want.Kind != dev.KindOutside && got.Version == "" {
				t.Error("the version is missing")
			}
			got.Version = ""
			if got != c.want {
				t.Errorf("found %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLeashGivesTheExitCode(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(self(), "fake-leash", "sh", "-c", "exit 7")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the leash ended with %v, want exit status 7", err)
	}
	for _, argv := range [][]string{nil, {"/nowhere/program"}} {
		if _, err := dev.Leash(argv, strings.NewReader(""), os.Stdout, os.Stderr); err == nil {
			t.Errorf("Leash(%q) gives no error", argv)
		}
	}
}

func TestLeashEndsItsProgramWithStdin(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(freePort(t))
	cmd := exec.Command(self(), "fake-leash", program(t, "temporal"), "server", "--db-filename", filepath.Join(t.TempDir(), "db"), "--port", port)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program listens", func() bool { return dial(t.Context(), "127.0.0.1:"+port) == nil })
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the leash ended with %v", err)
	}
	if err := dial(t.Context(), "127.0.0.1:"+port); err == nil {
		t.Error("the program still listens")
	}
}
