package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"

	"github.com/wakepoint/wakepoint/engine"
)

const (
	keyword = enums.INDEXED_VALUE_TYPE_KEYWORD
	integer = enums.INDEXED_VALUE_TYPE_INT
)

func TestAssignFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have map[string]string
		want map[string]enums.IndexedValueType
		got  map[string]string
		err  string
	}{
		"new, in order of names": {
			want: map[string]enums.IndexedValueType{"B": keyword, "A": keyword, "N": integer},
			got:  map[string]string{"Keyword01": "A", "Keyword02": "B", "Int01": "N"},
		},
		"nothing moves": {
			have: map[string]string{"Keyword02": "B", "Int03": "N"},
			want: map[string]enums.IndexedValueType{"A": keyword, "B": keyword, "C": keyword, "N": integer},
			got:  map[string]string{"Keyword01": "A", "Keyword02": "B", "Keyword03": "C", "Int03": "N"},
		},
		"nothing goes": {
			have: map[string]string{"Keyword01": "Old"},
			want: map[string]enums.IndexedValueType{},
			got:  map[string]string{"Keyword01": "Old"},
		},
		"another type": {
			have: map[string]string{"Keyword01": "A"},
			want: map[string]enums.IndexedValueType{"A": integer},
			err:  "search attribute A is a Keyword in the existing files, not a Int",
		},
		"full": {
			have: map[string]string{"Int01": "A", "Int02": "B", "Int03": "C"},
			want: map[string]enums.IndexedValueType{"D": integer},
			err:  "SQL visibility holds 3 of type Int",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := engine.AssignFields(tc.have, tc.want)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.got, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSchemaNumber(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"0.1": 1, "0.11": 11, "1.0": 1000, "2.999": 2999} {
		got, err := engine.SchemaNumber(version)
		if err != nil || got != want || engine.SchemaVersion(got) != version {
			t.Errorf("%s: number %d (%v), back %s; want %d", version, got, err, engine.SchemaVersion(got), want)
		}
	}
	for _, bad := range []string{"", "1", "a.1", "1.b", "1.1000"} {
		if n, err := engine.SchemaNumber(bad); err == nil {
			t.Errorf("%q gives %d, want an error", bad, n)
		}
	}
}
