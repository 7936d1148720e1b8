package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// FileName is the name under which the commands look for a configuration.
const FileName = "wakepoint.yaml"

// The defaults of a [Config].
const (
	DefaultTenant    = "default"
	DefaultDataDir   = ".wakepoint"
	DefaultMaxTTL    = 30 * day
	DefaultResultTTL = 3 * day
	// DefaultFairnessWeight is the engine's own.
	DefaultFairnessWeight = 1
	DefaultSweepEvery     = time.Hour
)

// The engine clamps weights to this range.
const (
	MinFairnessWeight = 0.001
	MaxFairnessWeight = 1000
)

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 1 << 20

// Config is one installation. Make it with [Load], [Parse] or [New]: they fill in
// the defaults and check the whole.
type Config struct {
	// File is where it was read from, Dir the folder that relative paths in it
	// start from. Dir is absolute.
	File string
	Dir  string

	// Tenant is whose tasks these are: 1 to 32 of A-Z a-z 0-9 . _ -.
	// Default: "default".
	Tenant string
	// TaskQueue is where workflows and activities run. Default: "wakepoint".
	TaskQueue string
	// DataDir holds what the installation keeps on this host. It is absolute.
	// Default: ".wakepoint" in Dir.
	DataDir string
	// Secret names the secret of the installation, see [Secret]. Default: the
	// environment variable WAKEPOINT_SECRET, else a file in DataDir.
	Secret SecretRef
	// Blobs is the URL of the store of results. Default: empty, see [Config.BlobURL].
	Blobs string
	// MaxTTL is the longest time to live of any task or run, whatever is asked for.
	// Default: 30 days.
	MaxTTL time.Duration
	// ResultTTL is how long a result is kept after the end of its task. Default:
	// 3 days.
	ResultTTL time.Duration
	// FairnessWeight is the tenant's share of a task queue that has a backlog,
	// beside those of other tenants: 0.001 to 1000. Default: 1.
	FairnessWeight float64
	// SweepEvery is how often results and jobs that have outlived their task are
	// deleted, at least 1m. Default: 1h.
	SweepEvery time.Duration
	// Tools are the declared tools, in the order of the file.
	Tools []Tool
	// Targets are where news of the end of tasks can be sent, in the order of the
	// file.
	Targets []Target
	// Runs is what holds for runs that follow a plan.
	Runs Runs
	// Runtimes are the declared agent runtimes, in the order of the file.
	Runtimes []Runtime

	// places says where the keys stand in the file.
	places map[string]place
}

// Default is an installation without tools in the current folder.
func Default() (*Config, error) { return New(Config{}) }

// Load reads a file; see [Parse].
func Load(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if info.Size() > MaxFile {
		return nil, Errors{{File: path, Rule: fmt.Sprintf("must be at most %d bytes", MaxFile)}}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, b)
}

// Parse reads a configuration. The name stands in errors, and its folder is where
// relative paths start from. An error about the content is an [Errors].
func Parse(name string, b []byte) (*Config, error) {
	d := newDecoder(name)
	c := d.config(b)
	c.File = name
	if c.Dir == "" {
		c.Dir = filepath.Dir(name)
	}
	if d.broken {
		return nil, d.errs.asError()
	}
	for _, p := range c.finish() {
		if !d.consequence(p.key) {
			d.report(p.key, "%s", p.rule)
		}
	}
	if err := d.errs.asError(); err != nil {
		return nil, err
	}
	c.places = d.places
	return &c, nil
}

// Mistake is an error about a key, at its place in the file if it was read from one:
// for what is found out by those who use a configuration that is right in itself.
func (c *Config) Mistake(key, format string, args ...any) *Error {
	at := nearestPlace(c.places, key)
	return &Error{File: c.File, Line: at.line, Column: at.column, Key: key, Rule: fmt.Sprintf(format, args...)}
}

// New takes a configuration that was built in Go, fills in its defaults and
// checks it by the same rules as a file. The argument stays as it is. An error is
// an [Errors] without lines.
func New(c Config) (*Config, error) {
	c.Tools, c.Targets, c.Runtimes = slices.Clone(c.Tools), slices.Clone(c.Targets), slices.Clone(c.Runtimes)
	var errs Errors
	for _, p := range c.finish() {
		errs = append(errs, &Error{File: c.File, Key: p.key, Rule: p.rule})
	}
	if err := errs.asError(); err != nil {
		return nil, err
	}
	return &c, nil
}

// Tool finds a tool by its name.
func (c *Config) Tool(name string) (Tool, bool) {
	i := slices.IndexFunc(c.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return c.Tools[i], true
}

// Target finds a target by its name.
func (c *Config) Target(name string) (Target, bool) {
	i := slices.IndexFunc(c.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return Target{}, false
	}
	return c.Targets[i], true
}

// BlobURL is where results are stored: Blobs, or else the folder blobs in DataDir.
func (c *Config) BlobURL() string {
	if c.Blobs != "" {
		return c.Blobs
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(c.DataDir, "blobs"))}).String()
}

// withDefaults fills in what was left out. Problems of the parts that it cannot
// fill in are found later.
func (c *Config) withDefaults() error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	c.Dir = dir
	def(&c.Tenant, DefaultTenant)
	def(&c.TaskQueue, protocol.DefaultTaskQueue)
	def(&c.DataDir, DefaultDataDir)
	def(&c.MaxTTL, DefaultMaxTTL)
	def(&c.ResultTTL, DefaultResultTTL)
	def(&c.FairnessWeight, DefaultFairnessWeight)
	def(&c.SweepEvery, DefaultSweepEvery)
	c.DataDir = c.path(c.DataDir)
	if c.Secret.File != "" {
		c.Secret.File = c.path(c.Secret.File)
	}
	for i := range c.Targets {
		c.Targets[i].withDefaults(c)
	}
	for i := range c.Tools {
		c.Tools[i].withDefaults(c)
	}
	c.Runs.terms().withDefaults(c)
	for i := range c.Runtimes {
		c.Runtimes[i].withDefaults(c)
	}
	return nil
}

// path makes a path of the file absolute.
func (c *Config) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(c.Dir, p)
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// problem is a mistake before its place in a file is looked up.
type problem struct{ key, rule string }

type problems []problem

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, problem{key: key, rule: fmt.Sprintf(format, args...)})
}

// finish fills in the defaults, compiles the schemas and checks everything.
func (c *Config) finish() problems {
	var p problems
	if err := c.withDefaults(); err != nil {
		p.add("", "the current folder: %v", err)
		return p
	}
	p.rule("tenant", domain.CheckTenant(c.Tenant))
	p.queue("taskQueue", c.TaskQueue)
	p.atLeast("maxTTL", c.MaxTTL, time.Millisecond)
	p.atLeast("resultTTL", c.ResultTTL, time.Minute)
	// Written so that NaN is refused too.
	if !(c.FairnessWeight >= MinFairnessWeight && c.FairnessWeight <= MaxFairnessWeight) {
		p.add("fairnessWeight", "must be %v to %v, it is %v", MinFairnessWeight, MaxFairnessWeight, c.FairnessWeight)
	}
	p.atLeast("sweep.every", c.SweepEvery, time.Minute)
	p.blobs("blobs", c.Blobs)
	c.Secret.check(&p, "secret")
	c.checkTargets(&p)
	c.checkTools(&p)
	c.checkRuntimes(&p)
	c.checkQueues(&p)
	return p
}
