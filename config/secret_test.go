package config_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wakepoint/wakepoint/config"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func inDir(t *testing.T, dir string, change func(*config.Config)) *config.Config {
	t.Helper()
	c := config.Config{DataDir: dir}
	change(&c)
	out, err := config.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSecretIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "data")
	c := inDir(t, dir, func(*config.Config) {})
	first, err := config.Secret(c, env())
	if err != nil {
		t.Fatal(err)
	}
	second, err := config.Secret(c, env())
	if err != nil || string(first) != string(second) || len(first) < 32 {
		t.Errorf("%q, then %q (%v)", first, second, err)
	}
	info, err := os.Stat(filepath.Join(dir, "secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v (%v)", entries, err)
	}
}

func TestSecretOfManyAtOnceIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const many = 16
	secrets := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		c := inDir(t, dir, func(*config.Config) {})
		wg.Go(func() {
			s, err := config.Secret(c, env())
			if err != nil {
				t.Error(err)
			}
			secrets[i] = string(s)
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if s != secrets[0] || s == "" {
			t.Fatalf("not one secret: %q", secrets)
		}
	}
}

// secretDirVar makes the test binary a process that prints the secret of a folder.
const secretDirVar = "CONFIG_TEST_SECRET_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(secretDirVar); dir != "" {
		c, err := config.New(config.Config{DataDir: dir})
		if err != nil {
			os.Exit(1)
		}
		secret, err := config.Secret(c, env())
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(secret)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSecretOfTwoProcessesIsOne(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := make([]string, 4)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), secretDirVar+"="+dir)
			b, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			out[i] = string(b)
		})
	}
	wg.Wait()
	for _, s := range out {
		if s != out[0] || len(s) < 32 {
			t.Fatalf("not one secret: %q", out)
		}
	}
}

func TestSecretComesFromWhereItIsNamed(t *testing.T) {
	t.Parallel()
	const long = "a secret of more than sixteen bytes"
	dir := t.TempDir()
	file := filepath.Join(dir, "named")
	if err := os.WriteFile(file, []byte(" "+long+" from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		ref  config.SecretRef
		env  func(string) string
		want string
	}{
		"WAKEPOINT_SECRET": {config.SecretRef{}, env(config.EnvSecret, long+"\n"), long},
		"a variable":       {config.SecretRef{Env: "MINE"}, env(config.EnvSecret, "not this one, it is the other", "MINE", long), long},
		"a file":           {config.SecretRef{File: file}, env(config.EnvSecret, "not this one, it is the other"), long + " from a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Secret(inDir(t, filepath.Join(dir, "data"), func(c *config.Config) { c.Secret = tc.ref }), tc.env)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestSecretThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, text string, mode os.FileMode) config.SecretRef {
		t.Helper()
		file := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		// The umask may have taken away what the test is about.
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return config.SecretRef{File: file}
	}
	for name, tc := range map[string]struct {
		ref  func(t *testing.T) config.SecretRef
		want string
	}{
		"unset variable": {func(*testing.T) config.SecretRef { return config.SecretRef{Env: "NONE"} }, "NONE is not set"},
		"no file":        {func(*testing.T) config.SecretRef { return config.SecretRef{File: "/nowhere/secret"} }, "no such file"},
		"short":          {func(t *testing.T) config.SecretRef { return write(t, "hunter2", 0o600) }, "at least 16 bytes"},
		"empty":          {func(t *testing.T) config.SecretRef { return write(t, "\n", 0o600) }, "is empty"},
		"for others":     {func(t *testing.T) config.SecretRef { return write(t, "hunter2 hunter2 hunter2", 0o640) }, "chmod 600"},
		"a folder":       {func(t *testing.T) config.SecretRef { return config.SecretRef{File: t.TempDir()} }, "regular file"},
		"too large":      {func(t *testing.T) config.SecretRef { return write(t, strings.Repeat("hunter2", 10_000), 0o600) }, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Secret(inDir(t, t.TempDir(), func(c *config.Config) { c.Secret = tc.ref(t) }), env())
			if err == nil || !errors.Is(err, config.ErrSecret) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the secret: %v", err)
			}
		})
	}
	if _, err := (config.SecretRef{}).Read(env()); !errors.Is(err, config.ErrSecret) {
		t.Errorf("got %v", err)
	}
}
