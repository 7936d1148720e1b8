package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.temporal.io/server/common/dynamicconfig"
)

// dynamicDefault is one of the server's dynamic settings that this engine sets differently.
type dynamicDefault struct {
	key   string
	value any
	// why says what the setting is for; docs/engine.md prints it, and a test compares the two.
	why string
}

// dynamicDefaults are what --dynamic-config-value overrides. A setting is here only for a reason that can be
// said in one line; everything else keeps the server's own default (history.maxTotalUpdates of 2,000 a run
// for one: Wakepoint continues as new before that).
var dynamicDefaults = []dynamicDefault{
	{"limit.maxIDLength", 255, "SQLite's visibility table holds ids of 255 characters; a longer one is refused when it comes in instead of failing later (server: 1,000)"},
	{"history.maxInFlightUpdates", 1000, "a burst of callbacks to one task; passing the server's limit of 10 throws its cached state away and stalls the worker for seconds"},
	{"history.MaxBufferedQueryCount", 100, "readers that arrive while a workflow task runs wait for it together; the server's limit is a single one"},
	{"matching.enableFairness", true, "fairness keys share a task queue between tenants"},
	{"frontend.WorkflowPauseEnabled", true, "workflows can be paused from the UI"},
	{"frontend.namespaceCount", 10000, "long polls open at a time: one for each watched task and each poller of a worker (server: 1,200)"},
	{"frontend.namespaceRPS", 20000, "a rate limit protects a shared cluster, here it would only slow the one user down (server: 2,400)"},
	{"frontend.rps", 20000, "as above, for the whole frontend"},
	{"frontend.namespaceRPS.visibility", 500, "lists and counts a second, for the UI and `wakepoint task list` side by side (server: 10)"},
	{"frontend.persistenceMaxQPS", 10000, "goes with system.forceSearchAttributesCacheRefreshOnRead, which reads more often (server: 2,000)"},
	{"history.persistenceMaxQPS", 45000, "as above, in the same proportion (server: 9,000)"},
	{"system.forceSearchAttributesCacheRefreshOnRead", true, "a search attribute that was added can be used at once, not after a minute"},
	{"system.forceNexusEndpointRefreshOnRead", true, "a Nexus endpoint that was added can be used at once"},
	{"history.enableSignalWithStartFromWorkflow", true, "workflows may signal with start"},
	{"history.cacheHostLevelMaxSize", 8096, "workflows held in memory; the server's default is made for machines of a cluster"},
	{"system.namespaceMinRetentionLocal", minRetention.String(), "tests may watch the end of retention (server: 1 h)"},
	{"history.retentionTimerJitterDuration", "1s", "closed workflows are deleted when retention ends, not up to half an hour later; one node has no load to spread"},
	{"frontend.enableServerVersionCheck", false, "nothing calls out: no version check"},
}

// dynamicClient merges the defaults with what the command line overrides.
func dynamicClient(overrides map[string]any) dynamicconfig.StaticClient {
	client := make(dynamicconfig.StaticClient, len(dynamicDefaults)+len(overrides))
	for _, d := range dynamicDefaults {
		client[dynamicconfig.MakeKey(d.key)] = d.value
	}
	for key, value := range overrides {
		client[dynamicconfig.MakeKey(key)] = value
	}
	return client
}

// parseDynamicConfig reads KEY=JSON values. Of a key given twice the last one counts.
func parseDynamicConfig(values []string) (map[string]any, error) {
	out := make(map[string]any, len(values))
	for _, kv := range values {
		key, text, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, usagef(hintStart, "--dynamic-config-value %q is not KEY=JSON", kv)
		}
		value, err := decodeJSON(text)
		if err != nil {
			return nil, usagef("a text value needs its own quotes: --dynamic-config-value '"+key+`="text"'`,
				"--dynamic-config-value %s: %q is not JSON: %v", key, text, err)
		}
		out[key] = value
	}
	return out, nil
}

// decodeJSON reads one JSON value with the Go types that the server expects of a setting: a whole number as
// int, because a float64 is silently ignored where an int is wanted.
func decodeJSON(text string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return plainNumbers(value)
}

func plainNumbers(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n), nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			var err error
			if v[i], err = plainNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			var err error
			if v[key], err = plainNumbers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
