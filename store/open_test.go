package store_test

import (
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/store"
)

// The bug: for a scheme without a driver the cause quoted the whole URL, with what opens
// the store, and doctor printed it.
func TestOpenKeepsWhatTheURLHolds(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"nosuch://ann:hunter2@here/there?token=hunter2", "nosuch://ann:hunter2@here:port"} {
		s, err := store.Open(t.Context(), raw)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", raw)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}
