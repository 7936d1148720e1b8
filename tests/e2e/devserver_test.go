package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/wakepoint/wakepoint/tests/harness"
	"github.com/wakepoint/wakepoint/workflows/protocol"
)

// The engine takes the place of the `temporal` CLI for whoever tests with the
// SDK's own helper.
func TestTheSDKsDevServerIsOurEngine(t *testing.T) {
	t.Parallel()
	path, err := harness.EnginePath()
	require.NoError(t, err)
	ctx := within(t, 2*time.Minute)
	s, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: path, LogLevel: "error", SearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword("OfTheTest").ValueSet("any")),
		ClientOptions: &client.Options{Namespace: "of-the-test", Logger: harness.Quiet()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	have, err := s.Client().OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: "of-the-test"})
	require.NoError(t, err)
	require.Contains(t, have.GetCustomAttributes(), "OfTheTest")
	for _, name := range protocol.SearchAttributes() {
		require.Contains(t, have.GetCustomAttributes(), name)
	}
}
