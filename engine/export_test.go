package engine

import (
	"flag"
	"maps"
	"slices"
)

// ParsedFlags parses flags of `server start-dev` and returns what tests compare, by name.
func ParsedFlags(args []string) (map[string]any, error) {
	o, err := parseStartDev(args)
	if err != nil {
		return nil, err
	}
	attributes := map[string]string{}
	for name, t := range o.searchAttributes {
		attributes[name] = t.String()
	}
	return map[string]any{
		"ip": o.ip.String(), "port": o.port, "http-port": o.httpPort, "metrics-port": o.metricsPort,
		"headless": o.headless, "ui-ip": o.uiIP.String(), "ui-port": o.uiPort,
		"ui-public-path": o.uiPublicPath, "ui-codec-endpoint": o.uiCodecEndpoint, "ui-asset-path": o.uiAssetPath,
		"db-filename": o.dbFilename, "data-dir": o.dataDir, "synchronous": o.synchronous,
		"namespace": o.namespaces, "retention": o.retention.String(), "search-attribute": attributes,
		"dynamic-config-value": o.dynamicConfig, "log-level": o.logLevel.String(), "log-json": o.logJSON,
		"ready-file": o.readyFile, "exit-with-stdin": o.exitWithStdin,
	}, nil
}

// FlagNames lists the flags of `server start-dev`, one-letter ones included.
func FlagNames() []string {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	(&rawFlags{}).register(fs)
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// StartHelp is the text of `server start-dev --help`.
const StartHelp = startHelp

// DynamicDefaults are the dynamic settings of the engine with their reasons.
func DynamicDefaults() map[string]string {
	out := map[string]string{}
	for _, d := range dynamicDefaults {
		out[d.key] = d.why
	}
	return out
}

// OwnAttributes are the search attributes that every namespace has.
func OwnAttributes() []string { return slices.Sorted(maps.Keys(ownAttributes)) }

// AssignFields is assignFields with the names of types.
var AssignFields = assignFields

// SchemaNumber and SchemaVersion turn a schema version into the number in the file's header and back.
var (
	SchemaNumber  = schemaNumber
	SchemaVersion = schemaVersion
)

// ApplicationID marks the database files.
const ApplicationID = applicationID
