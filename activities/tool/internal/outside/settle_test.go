package outside_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/wakepoint/wakepoint/activities/tool/internal/outside"
)

// A start that was given up appeared in the engine after a look that had said no, and the
// no had been taken for sure.
func TestANoIsDoubted(t *testing.T) {
	t.Parallel()
	broken := errors.New("away")
	for name, c := range map[string]struct {
		looks []bool
		err   error
		want  bool
		times int
	}{
		"it is there":            {looks: []bool{false}, times: 1},
		"it is never there":      {looks: []bool{true, true}, want: true, times: 2},
		"it appears in between":  {looks: []bool{true, false}, times: 2},
		"it cannot be looked at": {looks: []bool{false}, err: broken, times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				got, err := outside.Settled(t.Context(), func(context.Context) (bool, error) {
					n++
					return c.looks[n-1], c.err
				})
				if got != c.want || n != c.times || !errors.Is(err, c.err) {
					t.Errorf("%v, %v after %d looks", got, err, n)
				}
			})
		})
	}
}
