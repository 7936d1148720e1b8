package engine

import (
	"fmt"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	// clusterName is written into the files and into every namespace, so it can't change.
	clusterName     = "active"
	mainStore       = "main"
	visibilityStore = "visibility"
	// historyShards is written into the files too. More of them gained nothing on one SQLite connection.
	historyShards = 1
	// stateDisabled turns a kind of archival off.
	stateDisabled = "disabled"
)

// serverConfig is the configuration of all four services in this one process.
func serverConfig(o options, p listeners, mainSQL, visibilitySQL *config.SQL) *config.Config {
	frontend := hostPort(dialIP(o.ip), p.frontend)
	conf := &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     mainStore,
			VisibilityStore:  visibilityStore,
			NumHistoryShards: historyShards,
			DataStores: map[string]config.DataStore{
				mainStore:       {SQL: mainSQL},
				visibilityStore: {SQL: visibilitySQL},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {
					Enabled:                true,
					InitialFailoverVersion: 1,
					RPCAddress:             frontend,
					HTTPAddress:            hostPort(dialIP(o.ip), p.http),
				},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: p.frontend, HTTPPort: p.http, BindOnIP: o.ip.String()}},
			string(primitives.HistoryService):  innerService(o, p.history),
			string(primitives.MatchingService): innerService(o, p.matching),
			string(primitives.WorkerService):   innerService(o, p.worker),
		},
		PublicClient: config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: stateDisabled},
			Visibility: config.VisibilityArchival{State: stateDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: stateDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: stateDisabled},
		}},
	}
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: innerIP(o.ip).String()}
	if o.metricsPort != portUnset {
		conf.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: hostPort(o.ip, p.metrics), HandlerPath: "/metrics",
		}}
	}
	return conf
}

func innerService(o options, port int) config.Service {
	return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: innerIP(o.ip).String()}}
}

// newServer builds the server. Its listeners open here, so the ports have to be free; it answers after its Start.
func newServer(o options, p listeners, conf *config.Config, logger *serverLogger) (temporal.Server, error) {
	authorizer, err := authorization.GetAuthorizerFromConfig(&conf.Global.Authorization)
	if err != nil {
		return nil, fmt.Errorf("make authorizer: %w", err)
	}
	claimMapper, err := authorization.GetClaimMapperFromConfig(&conf.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("make claim mapper: %w", err)
	}
	inner := innerIP(o.ip)
	server, err := temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		// There is one host of each service, known beforehand: no membership protocol, no ports for it.
		temporal.WithStaticHosts(map[primitives.ServiceName]static.Hosts{
			primitives.FrontendService: static.SingleLocalHost(hostPort(dialIP(o.ip), p.frontend)),
			primitives.HistoryService:  static.SingleLocalHost(hostPort(inner, p.history)),
			primitives.MatchingService: static.SingleLocalHost(hostPort(inner, p.matching)),
			primitives.WorkerService:   static.SingleLocalHost(hostPort(inner, p.worker)),
		}),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claimMapper }),
		temporal.WithDynamicConfigClient(dynamicClient(o.dynamicConfig)),
	)
	if err != nil {
		return nil, fmt.Errorf("make temporal server: %w", err)
	}
	return server, nil
}
