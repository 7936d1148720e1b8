package stepio_test

import (
	"strings"
	"testing"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/store/stepio"
)

// A reference that a call came to must be that of its own task, or of a run that did
// its work: neither a task nor a caller can name the content of any other run.
func TestOwn(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", 64)
	sub := domain.PrefixSubRun + "x"
	for name, tc := range map[string]struct {
		ref, taskID string
		want        bool
	}{
		"its task":                    {blobref.For("acme", "t", hash), "t", true},
		"another task":                {blobref.For("acme", "u", hash), "t", false},
		"another tenant":              {blobref.For("umbrella", "t", hash), "t", false},
		"a run of the task's id":      {blobref.ForRun("acme", "t", hash), "t", false},
		"a run below":                 {blobref.ForRun("acme", sub, hash), "", true},
		"a run below, another tenant": {blobref.ForRun("umbrella", sub, hash), "", false},
		"a run of its own":            {blobref.ForRun("acme", "r", hash), "", false},
		"a task of a run's id":        {blobref.For("acme", sub, hash), "", false},
		"a bare prefix":               {blobref.ForRun("acme", domain.PrefixSubRun, hash), "", false},
		"no reference":                {"s3://x/y", "", false},
	} {
		if got := stepio.Own(tc.ref, "acme", tc.taskID); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got, want := stepio.RunKey("acme", "r"), (store.Key{Tenant: "acme", RunID: "r"}); got != want {
		t.Errorf("the key of a run is %+v", got)
	}
}
