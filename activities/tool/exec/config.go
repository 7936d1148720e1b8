package exec

import (
	"errors"
	"fmt"
	"mime"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wakepoint/wakepoint/store"
)

// Kind is the executor kind in the handles of this package.
const Kind = "exec"

// OutputLimit says what becomes of a tool that writes more than it may.
type OutputLimit string

const (
	// TruncateOutput keeps the beginning and the end of the stream and lets the tool go on.
	TruncateOutput OutputLimit = "truncate"
	// FailOnOutput ends the tool and fails the job with OUTPUT_LIMIT.
	FailOnOutput OutputLimit = "fail"
)

// Config declares one tool and where it runs. The zero value of a field is its default.
type Config struct {
	// Name is the declared name of the tool, for errors and for telling one tool's jobs from
	// another's. Required.
	Name string

	// Argv is the program and its arguments; no shell is involved. Elements after the first may
	// hold placeholders, see [the package's argv rules in docs/exec.md]: ${input.name} is replaced
	// by a scalar of the input and never splits an element. The program is looked up when the
	// executor is made. Required.
	Argv []string

	// Dir is the tool's working directory, absolute.
	// Default: a new folder of the run.
	Dir string

	// Env names the variables that the tool inherits from the worker. Empty but not nil means none.
	// Default: DefaultEnv.
	Env []string

	// SetEnv are variables with fixed values; they win over inherited ones.
	// Default: none.
	SetEnv map[string]string

	// MaxOutputBytes is how much is kept of each of stdout and stderr, in bytes, at least 4096.
	// Default: 8 MiB.
	MaxOutputBytes int64

	// OnOutputLimit is what happens beyond MaxOutputBytes.
	// Default: TruncateOutput.
	OnOutputLimit OutputLimit

	// MaxResultBytes is how large a result may be, in bytes. A larger one fails the job.
	// Default: 64 MiB.
	MaxResultBytes int64

	// ResultContentType is the media type of the results.
	// Default: found out from the content (JSON, UTF-8 text or bytes).
	ResultContentType string

	// RetryExitCodes are the exit codes after which another attempt is worth it. Empty but not nil
	// means none.
	// Default: every code but 0.
	RetryExitCodes []int

	// KillGrace is the time between SIGTERM and SIGKILL.
	// Default: 10 s.
	KillGrace time.Duration

	// DataDir is the folder under which the files of the jobs lie, on a local file system,
	// since the locks are the kernel's. Required.
	DataDir string

	// Host names this host and data folder in handles. It must stay the same over restarts and
	// differ from host to host.
	// Default: the host's name.
	Host string

	// TaskQueue is put into handles: where Observe, Cancel, Find and Logs reach this host.
	// Default: none.
	TaskQueue string

	// Store takes the results. Required.
	Store *store.Store

	// SupervisorArgv is the command that ends up in [SupervisorMain] with the arguments that are
	// appended to it, for example {"/usr/bin/wakepoint", "internal-supervise"}. The first element
	// is absolute. Required.
	SupervisorArgv []string

	// AckTimeout is how long Submit waits for the supervisor to take charge before it calls the
	// start off.
	// Default: 30 s.
	AckTimeout time.Duration
}

// DefaultEnv is what a tool inherits when Config.Env is nil: enough to find programs, a home,
// a place for temporary files, the language and the time zone, and no secrets.
func DefaultEnv() []string {
	return []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"}
}

// envPrefix marks the variables that are ours to set.
const envPrefix = "WAKEPOINT_"

func (c Config) withDefaults() Config {
	if c.Env == nil {
		c.Env = DefaultEnv()
	}
	if c.MaxOutputBytes == 0 {
		c.MaxOutputBytes = 8 << 20
	}
	if c.OnOutputLimit == "" {
		c.OnOutputLimit = TruncateOutput
	}
	if c.MaxResultBytes == 0 {
		c.MaxResultBytes = 64 << 20
	}
	if c.KillGrace == 0 {
		c.KillGrace = 10 * time.Second
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // an empty name is refused by validate
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = 30 * time.Second
	}
	return c
}

func (c Config) validate() error {
	switch {
	case strings.TrimSpace(c.Name) == "":
		return errors.New("name must not be blank")
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return errors.New("argv must begin with a program")
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return fmt.Errorf("dir %q must be absolute", c.Dir)
	case c.MaxOutputBytes < minOutputBytes:
		return fmt.Errorf("maxOutputBytes %d must be at least %d", c.MaxOutputBytes, minOutputBytes)
	case c.OnOutputLimit != TruncateOutput && c.OnOutputLimit != FailOnOutput:
		return fmt.Errorf("onOutputLimit %q must be %q or %q", c.OnOutputLimit, TruncateOutput, FailOnOutput)
	case c.MaxResultBytes < 0:
		return fmt.Errorf("maxResultBytes %d must not be negative", c.MaxResultBytes)
	case c.KillGrace < 0:
		return fmt.Errorf("killGrace %v must not be negative", c.KillGrace)
	case c.AckTimeout < 0:
		return fmt.Errorf("ackTimeout %v must not be negative", c.AckTimeout)
	case !filepath.IsAbs(c.DataDir):
		return fmt.Errorf("dataDir %q must be absolute", c.DataDir)
	case c.Host == "":
		return errors.New("host must not be empty")
	case c.Store == nil:
		return errors.New("store must be set")
	case len(c.SupervisorArgv) == 0 || !filepath.IsAbs(c.SupervisorArgv[0]):
		return errors.New("supervisorArgv must begin with the absolute path of a program")
	}
	if c.ResultContentType != "" {
		if _, _, err := mime.ParseMediaType(c.ResultContentType); err != nil {
			return fmt.Errorf("resultContentType %q must be a media type: %w", c.ResultContentType, err)
		}
	}
	return c.validateEnv()
}

func (c Config) validateEnv() error {
	names := slices.Clone(c.Env)
	for name, value := range c.SetEnv {
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("setEnv %s must not contain a zero byte", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("env name %q must not be empty or contain '=' or a zero byte", name)
		case strings.HasPrefix(name, envPrefix):
			return fmt.Errorf("env name %q must not begin with %s, which is set by the executor", name, envPrefix)
		}
	}
	return nil
}

// lookProgram finds the program now, so that a typing error stops the worker at its start and not
// a run in the middle. The path is looked up in the worker's PATH, once: what the tool inherits
// has no say in what is run.
func (c Config) lookProgram() (string, error) {
	path, err := osexec.LookPath(c.Argv[0])
	if err != nil {
		// The error repeats the name of the program around its reason.
		var look *osexec.Error
		if errors.As(err, &look) {
			err = look.Err
		}
		return "", fmt.Errorf("argv: program %q was not found or is not executable: %w", c.Argv[0], err)
	}
	return filepath.Abs(path)
}

// environment is what the tool gets besides the variables of its run.
func (c Config) environment() []string {
	values := make(map[string]string, len(c.Env)+len(c.SetEnv))
	for _, name := range c.Env {
		if v, ok := os.LookupEnv(name); ok {
			values[name] = v
		}
	}
	for name, v := range c.SetEnv {
		values[name] = v
	}
	env := make([]string, 0, len(values))
	for name, v := range values {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}
