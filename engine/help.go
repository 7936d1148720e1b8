package engine

// rootHelp is printed by `wakepoint-engine --help`.
const rootHelp = `wakepoint-engine is the embedded engine of Wakepoint: a Temporal server on SQLite with the Temporal UI.

usage:
  wakepoint-engine server start-dev [flags]   run the server until SIGINT or SIGTERM
  wakepoint-engine version                    print the versions
  wakepoint-engine server start-dev --help    list the flags

The flags are those of "temporal server start-dev", and some more.
`

// startHelp is printed by `wakepoint-engine server start-dev --help`. A test holds it to the flags that exist.
const startHelp = `usage: wakepoint-engine server start-dev [flags]

Runs a Temporal server with its UI in one process, until SIGINT or SIGTERM. A second signal ends it at once.

listening (port 0 is any free port)
  --ip IP                     address of the server (default 127.0.0.1; there is no authentication)
  --port, -p PORT             port of the server, gRPC (default 7233)
  --http-port PORT            port of the server's HTTP API (default 0)
  --metrics-port PORT         port of the Prometheus endpoint /metrics (default: no endpoint)
  --headless                  no UI
  --ui-ip IP                  address of the UI (default: that of the server)
  --ui-port PORT              port of the UI (default: that of the server + 1000, or a free one if that is taken)
  --ui-public-path PATH       path prefix of the UI behind a proxy
  --ui-codec-endpoint URL     codec server that the UI's pages decode payloads with
  --ui-asset-path DIR         another build of the UI's pages
  --ui-disable-news-fetch     taken and ignored: the engine never calls out

data (by default a temporary folder, removed at stop)
  --data-dir DIR              folder of main.db and visibility.db, made if missing
  --db-filename, -f FILE      main database file; the list goes to FILE.visibility
  --synchronous full|normal   full: an acknowledged change survives a power cut (default)
                              normal: faster; survives a crash of the process, a power cut may take the last moments

namespaces
  --namespace, -n NAME        namespace to create if missing; may be repeated (default "default")
  --retention DURATION        how long closed workflows are kept (default 168h); if given, existing namespaces get it too
  --search-attribute N=TYPE   search attribute to add if missing; may be repeated
                              types: Keyword, Int, Text, Bool, Double, Datetime, KeywordList
  --dynamic-config-value K=V  dynamic setting of the server, V is JSON; may be repeated

process
  --log-level LEVEL           debug, info, warn, error or never (default warn), on stderr
  --log-format FORMAT         text, json or pretty, the same as text (default text)
  --ready-file FILE           write a JSON file with pid and addresses once everything answers, remove it at stop
  --exit-with-stdin           stop when stdin ends, so that a parent that dies leaves no engine behind
  --help, -h                  this text

exit codes
  0 stopped cleanly   1 error   2 wrong command line   3 the data is in use by another engine   130 second signal
`
