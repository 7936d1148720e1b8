package engine

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
)

const (
	defaultPort      = 7233
	defaultNamespace = "default"
	defaultRetention = 168 * time.Hour
	// minRetention also becomes the server's own minimum for local namespaces (one hour upstream), so
	// that tests can watch what happens when retention ends.
	minRetention = time.Second
	// uiPortOffset is added to the frontend's port when --ui-port is not given; `temporal server
	// start-dev` does the same, and people have bookmarked it.
	uiPortOffset = 1000
	// portUnset marks a port whose flag was not given; 0 means "any free port".
	portUnset = -1
	// levelNever is above every level that the server logs at.
	levelNever = slog.Level(100)
)

// Values of --synchronous.
const (
	syncFull   = "full"
	syncNormal = "normal"
	// syncOff is what a temporary folder gets when the flag is not given: its files are removed at
	// stop, so there is nothing that a power cut could take away.
	syncOff = "off"
)

type command int

const (
	commandHelp command = iota
	commandVersion
	commandStartDev
)

// usageError is a command line that can't be run, with a line that says what to do.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(hint, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: hint}
}

const (
	hintRoot  = "run `wakepoint-engine --help`"
	hintStart = "run `wakepoint-engine server start-dev --help`"
)

// parseCommand finds the command in args and returns what follows it.
func parseCommand(args []string) (command, []string, error) {
	if len(args) == 0 {
		return 0, nil, usagef(hintRoot, "no command given")
	}
	switch args[0] {
	case "help", "--help", "-help", "-h":
		return commandHelp, nil, nil
	case "version", "--version", "-version", "-v":
		return commandVersion, nil, nil
	case "server":
		if len(args) == 1 {
			return 0, nil, usagef(hintRoot, "server needs a sub-command: start-dev")
		}
		switch args[1] {
		case "start-dev":
			return commandStartDev, args[2:], nil
		case "help", "--help", "-help", "-h":
			return commandHelp, nil, nil
		}
		return 0, nil, usagef(hintRoot, "unknown command %q", "server "+args[1])
	}
	return 0, nil, usagef(hintRoot, "unknown command %q", args[0])
}

// options are the flags of `server start-dev`, checked.
type options struct {
	// ip is where the frontend listens. Default: 127.0.0.1.
	ip net.IP
	// port of the frontend; 0 takes a free one. Default: 7233.
	port int
	// httpPort of the frontend's HTTP API, which Nexus needs; 0 takes a free one. Default: 0.
	httpPort int
	// metricsPort of the Prometheus endpoint; 0 takes a free one. Default: portUnset, no endpoint.
	metricsPort int
	// headless leaves the UI out. Default: false.
	headless bool
	// uiIP is where the UI listens. Default: ip.
	uiIP net.IP
	// uiPort of the UI; 0 takes a free one. Default: portUnset, which is port+1000 if that is free.
	uiPort int
	// uiAssetPath is a folder with another build of the UI's pages. Default: the built-in pages.
	uiAssetPath string
	// uiPublicPath is the path prefix under which a proxy shows the UI. Default: none.
	uiPublicPath string
	// uiCodecEndpoint is the URL of a codec server that the pages in the browser call. Default: none.
	uiCodecEndpoint string
	// dbFilename is the main database file. At most one of dbFilename and dataDir is set. Default: none.
	dbFilename string
	// dataDir is the folder of the database files. Default: a temporary folder, removed at stop.
	dataDir string
	// synchronous is syncFull, syncNormal or, only by default and in a temporary folder, syncOff.
	synchronous string
	// namespaces to be there when the frontend answers. Default: one, "default".
	namespaces []string
	// retention of namespaces that are created. Default: 168 h.
	retention time.Duration
	// retentionGiven makes retention apply to the given namespaces even if they exist already.
	retentionGiven bool
	// searchAttributes to be there in every given namespace, besides Wakepoint's own. Default: none.
	searchAttributes map[string]enums.IndexedValueType
	// dynamicConfig overrides our defaults for the server's dynamic settings, by key. Default: none.
	dynamicConfig map[string]any
	// logLevel is the lowest level logged to stderr. Default: warn.
	logLevel slog.Level
	// logLevelGiven keeps the level as it is while stopping, when the server logs every call that the stop
	// cuts off as an error.
	logLevelGiven bool
	// logJSON logs objects instead of key=value lines. Default: false.
	logJSON bool
	// readyFile is written once everything answers. Default: none.
	readyFile string
	// exitWithStdin stops the engine at the end of stdin. Default: false.
	exitWithStdin bool
}

// rawFlags are the flags as given, before they are looked at together.
type rawFlags struct {
	ip, uiIP, logLevel, logFormat, synchronous  string
	namespaces, searchAttributes, dynamicConfig stringList
	port, httpPort, metricsPort, uiPort         int
	retention                                   time.Duration
	dbFilename, dataDir, readyFile              string
	uiAssetPath, uiPublicPath, uiCodecEndpoint  string
	headless, exitWithStdin, uiNoNews           bool
}

// stringList is a flag that may be given more than once.
type stringList []string

func (l *stringList) String() string     { return strings.Join(*l, ",") }
func (l *stringList) Set(v string) error { *l = append(*l, v); return nil }

func (r *rawFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&r.ip, "ip", "127.0.0.1", "")
	fs.IntVar(&r.port, "port", defaultPort, "")
	fs.IntVar(&r.port, "p", defaultPort, "")
	fs.IntVar(&r.httpPort, "http-port", 0, "")
	fs.IntVar(&r.metricsPort, "metrics-port", portUnset, "")
	fs.BoolVar(&r.headless, "headless", false, "")
	fs.StringVar(&r.uiIP, "ui-ip", "", "")
	fs.IntVar(&r.uiPort, "ui-port", portUnset, "")
	fs.StringVar(&r.uiAssetPath, "ui-asset-path", "", "")
	fs.StringVar(&r.uiPublicPath, "ui-public-path", "", "")
	fs.StringVar(&r.uiCodecEndpoint, "ui-codec-endpoint", "", "")
	// Upstream's switch for what this engine never does; taken so that a command line can be shared.
	fs.BoolVar(&r.uiNoNews, "ui-disable-news-fetch", true, "")
	fs.StringVar(&r.dbFilename, "db-filename", "", "")
	fs.StringVar(&r.dbFilename, "f", "", "")
	fs.StringVar(&r.dataDir, "data-dir", "", "")
	fs.StringVar(&r.synchronous, "synchronous", "", "")
	fs.Var(&r.namespaces, "namespace", "")
	fs.Var(&r.namespaces, "n", "")
	fs.DurationVar(&r.retention, "retention", defaultRetention, "")
	fs.Var(&r.searchAttributes, "search-attribute", "")
	fs.Var(&r.dynamicConfig, "dynamic-config-value", "")
	fs.StringVar(&r.logLevel, "log-level", "warn", "")
	fs.StringVar(&r.logFormat, "log-format", "text", "")
	fs.StringVar(&r.readyFile, "ready-file", "", "")
	fs.BoolVar(&r.exitWithStdin, "exit-with-stdin", false, "")
}

// unsupportedFlags are flags of `temporal server start-dev` that this engine refuses, with the reason.
var unsupportedFlags = map[string]string{
	"sqlite-pragma": "the engine sets the pragmas itself; --synchronous chooses the durability",
	"log-config":    "the engine's settings are listed in docs/engine.md",
}

// errHelp asks for the help text; it is no failure.
var errHelp = errors.New("help asked for")

// parseStartDev reads and checks the flags of `server start-dev`. It returns errHelp when they ask for help.
func parseStartDev(args []string) (options, error) {
	var raw rawFlags
	fs := flag.NewFlagSet("start-dev", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	raw.register(fs)
	if err := fs.Parse(args); err != nil {
		return options{}, flagError(err)
	}
	if fs.NArg() > 0 {
		return options{}, usagef(hintStart, "unexpected argument %q", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return raw.check(given)
}

// flagError words what the flag package found as this program words its errors.
func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return errHelp
	}
	const undefined = "flag provided but not defined: -"
	if name, ok := strings.CutPrefix(err.Error(), undefined); ok {
		name = strings.TrimPrefix(name, "-")
		if reason, known := unsupportedFlags[name]; known {
			return usagef(hintStart, "--%s is not supported: %s", name, reason)
		}
		return usagef(hintStart, "unknown flag --%s", name)
	}
	text := strings.NewReplacer(" for flag -", " for --", "flag needs an argument: -", "flag needs a value: --").Replace(err.Error())
	return usagef(hintStart, "%s", text)
}

// check turns the flags as given into options, or names the flag and the rule that it breaks.
func (r *rawFlags) check(given map[string]bool) (options, error) {
	o := options{
		port: r.port, httpPort: r.httpPort, metricsPort: r.metricsPort, uiPort: r.uiPort,
		headless: r.headless, uiAssetPath: r.uiAssetPath, uiPublicPath: r.uiPublicPath, uiCodecEndpoint: r.uiCodecEndpoint,
		dbFilename: r.dbFilename, dataDir: r.dataDir, readyFile: r.readyFile, exitWithStdin: r.exitWithStdin,
		retention: r.retention, retentionGiven: given["retention"], logLevelGiven: given["log-level"],
	}
	for _, step := range []func(*options, map[string]bool) error{
		r.checkAddresses, r.checkData, r.checkNamespaces, r.checkLog,
	} {
		if err := step(&o, given); err != nil {
			return options{}, err
		}
	}
	var err error
	if o.searchAttributes, err = parseSearchAttributes(r.searchAttributes); err != nil {
		return options{}, err
	}
	if o.dynamicConfig, err = parseDynamicConfig(r.dynamicConfig); err != nil {
		return options{}, err
	}
	return o, nil
}

func (r *rawFlags) checkAddresses(o *options, given map[string]bool) (err error) {
	if o.ip, err = parseIP("ip", r.ip); err != nil {
		return err
	}
	o.uiIP = o.ip
	if r.uiIP != "" {
		if o.uiIP, err = parseIP("ui-ip", r.uiIP); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name string
		port int
	}{{"port", r.port}, {"http-port", r.httpPort}, {"metrics-port", r.metricsPort}, {"ui-port", r.uiPort}} {
		if (given[p.name] || p.name == "port") && (p.port < 0 || p.port > 65535) {
			return usagef(hintStart, "--%s %d: a port is 0 (any free one) to 65535", p.name, p.port)
		}
	}
	if r.uiAssetPath != "" {
		if info, statErr := os.Stat(r.uiAssetPath); statErr != nil || !info.IsDir() {
			return usagef(hintStart, "--ui-asset-path %q is not a folder", r.uiAssetPath)
		}
	}
	if r.uiPublicPath != "" && (!strings.HasPrefix(r.uiPublicPath, "/") || strings.HasSuffix(r.uiPublicPath, "/")) {
		return usagef(hintStart, "--ui-public-path %q has to begin with a slash and not end with one", r.uiPublicPath)
	}
	return nil
}

func parseIP(flagName, value string) (net.IP, error) {
	if value == "localhost" {
		value = "127.0.0.1" // the server binds to addresses only, and the SDK's default host is this name
	}
	ip := net.ParseIP(value)
	if ip == nil {
		return nil, usagef(hintStart, "--%s %q is not an IP address", flagName, value)
	}
	return ip, nil
}

func (r *rawFlags) checkData(o *options, _ map[string]bool) error {
	if r.dbFilename != "" && r.dataDir != "" {
		return usagef(hintStart, "--db-filename and --data-dir exclude each other")
	}
	switch r.synchronous {
	case syncFull, syncNormal:
		o.synchronous = r.synchronous
	case "":
		o.synchronous = syncFull
		if r.dbFilename == "" && r.dataDir == "" {
			o.synchronous = syncOff
		}
	default:
		return usagef(hintStart, "--synchronous %q: allowed are %s and %s", r.synchronous, syncFull, syncNormal)
	}
	return nil
}

// namespaceName is what Temporal's own tools accept without quoting; 255 is limit.maxIDLength.
var namespaceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$`)

func (r *rawFlags) checkNamespaces(o *options, _ map[string]bool) error {
	names := r.namespaces
	if len(names) == 0 {
		names = stringList{defaultNamespace}
	}
	seen := map[string]bool{}
	for _, name := range names {
		if !namespaceName.MatchString(name) {
			return usagef(hintStart, "--namespace %q: letters, digits, dots, dashes and underscores, at most 255, a letter or digit first", name)
		}
		if name == "temporal-system" {
			return usagef(hintStart, "--namespace %q belongs to the server", name)
		}
		if !seen[name] {
			seen[name] = true
			o.namespaces = append(o.namespaces, name)
		}
	}
	if r.retention < minRetention {
		return usagef(hintStart, "--retention %s is shorter than %s", r.retention, minRetention)
	}
	return nil
}

func (r *rawFlags) checkLog(o *options, _ map[string]bool) error {
	switch r.logLevel {
	case "debug":
		o.logLevel = slog.LevelDebug
	case "info":
		o.logLevel = slog.LevelInfo
	case "warn":
		o.logLevel = slog.LevelWarn
	case "error":
		o.logLevel = slog.LevelError
	case "never":
		o.logLevel = levelNever
	default:
		return usagef(hintStart, "--log-level %q: allowed are debug, info, warn, error and never", r.logLevel)
	}
	switch r.logFormat {
	case "text", "pretty":
	case "json":
		o.logJSON = true
	default:
		return usagef(hintStart, "--log-format %q: allowed are text, json and pretty (the same as text)", r.logFormat)
	}
	return nil
}
