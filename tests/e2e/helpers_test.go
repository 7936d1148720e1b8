package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wakepoint/wakepoint/tests/harness"
)

// bed is a [harness.Bed] on the shared engine, with more for these tests.
type bed struct{ harness.Bed }

func newBed(ctx context.Context, t testing.TB, yaml string, s *harness.Script) bed {
	t.Helper()
	return bed{harness.NewBed(ctx, t, shared, yaml, s)}
}

// in is the same bed for a subtest.
func (b bed) in(t testing.TB) bed {
	b.T = t
	return b
}

// exactly is a history to the last byte.
func exactly(t testing.TB, events []*historypb.HistoryEvent) string {
	t.Helper()
	out, err := protojson.Marshal(&historypb.History{Events: events})
	require.NoError(t, err)
	return string(out)
}
