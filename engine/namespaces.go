package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	persistencesql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resolver"
	"google.golang.org/protobuf/types/known/durationpb"
)

// namespaceTimeout bounds the work of ensureNamespaces, which is a few writes to a local file.
const namespaceTimeout = 30 * time.Second

// ensureNamespaces makes the namespaces of o with their search attributes, and adds what is missing to those that
// exist. It writes to the file while no server runs on it, so that a client for which the frontend answers finds
// everything there: through the API it would have to be done after that moment.
//
// It takes milliseconds, so a stop does not cut it short.
func ensureNamespaces(conf *config.SQL, o options) error {
	ctx, cancel := context.WithTimeout(context.Background(), namespaceTimeout)
	defer cancel()
	serializer := serialization.NewSerializer()
	factory := persistencesql.NewFactory(*conf, resolver.NewNoopResolver(), clusterName, log.NewNoopLogger(), metrics.NoopMetricsHandler, serializer)
	defer factory.Close()
	store, err := factory.NewMetadataStore()
	if err != nil {
		return fmt.Errorf("open namespaces: %w", err)
	}
	manager := persistence.NewMetadataManagerImpl(store, serializer, log.NewNoopLogger(), clusterName)
	defer manager.Close()
	for _, name := range o.namespaces {
		if err := ensureNamespace(ctx, manager, name, o); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

func ensureNamespace(ctx context.Context, manager persistence.MetadataManager, name string, o options) error {
	want := mergedAttributes(o.searchAttributes)
	have, err := manager.GetNamespace(ctx, &persistence.GetNamespaceRequest{Name: name})
	var notFound *serviceerror.NamespaceNotFound
	if errors.As(err, &notFound) {
		fields, err := assignFields(nil, want)
		if err != nil {
			return err
		}
		_, err = manager.CreateNamespace(ctx, &persistence.CreateNamespaceRequest{Namespace: newNamespace(name, fields, o.retention)})
		return err
	}
	if err != nil {
		return err
	}
	detail := have.Namespace
	fields, err := assignFields(detail.GetConfig().GetCustomSearchAttributeAliases(), want)
	if err != nil {
		return err
	}
	changed := !maps.Equal(fields, detail.GetConfig().GetCustomSearchAttributeAliases())
	detail.Config.CustomSearchAttributeAliases = fields
	if o.retentionGiven && detail.GetConfig().GetRetention().AsDuration() != o.retention {
		detail.Config.Retention = durationpb.New(o.retention)
		changed = true
	}
	if !changed {
		return nil
	}
	detail.ConfigVersion++
	metadata, err := manager.GetMetadata(ctx)
	if err != nil {
		return err
	}
	return manager.UpdateNamespace(ctx, &persistence.UpdateNamespaceRequest{
		Namespace: detail, IsGlobalNamespace: have.IsGlobalNamespace, NotificationVersion: metadata.NotificationVersion,
	})
}

// newNamespace is a namespace of this one cluster, as the server's own registration makes it.
func newNamespace(name string, fields map[string]string, retention time.Duration) *persistencespb.NamespaceDetail {
	return &persistencespb.NamespaceDetail{
		Info: &persistencespb.NamespaceInfo{
			Id:    primitives.NewUUID().String(),
			Name:  name,
			State: enums.NAMESPACE_STATE_REGISTERED,
		},
		Config: &persistencespb.NamespaceConfig{
			Retention:                    durationpb.New(retention),
			HistoryArchivalState:         enums.ARCHIVAL_STATE_DISABLED,
			VisibilityArchivalState:      enums.ARCHIVAL_STATE_DISABLED,
			CustomSearchAttributeAliases: fields,
		},
		ReplicationConfig: &persistencespb.NamespaceReplicationConfig{
			ActiveClusterName: clusterName,
			Clusters:          []string{clusterName},
		},
		FailoverVersion:             common.EmptyVersion,
		FailoverNotificationVersion: persistence.InitialFailoverNotificationVersion,
	}
}
