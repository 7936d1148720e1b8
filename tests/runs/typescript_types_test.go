package runs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/domain/run"
	"github.com/wakepoint/wakepoint/tests/harness"
)

var (
	tsInterface = regexp.MustCompile(`(?s)export interface (\w+) \{\n(.*?)\n\}`)
	tsField     = regexp.MustCompile(`(?m)^  (\w+\??): `)
)

// People who write runtimes copy the types of the example: they name every field
// of the protocol, and say which may be absent.
func TestTheTypesInTypeScriptAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(harness.Root(), "examples", "typescript-agent", "src", "protocol.ts"))
	require.NoError(t, err)
	got := map[string][]string{}
	for _, m := range tsInterface.FindAllStringSubmatch(string(b), -1) {
		for _, f := range tsField.FindAllStringSubmatch(m[2], -1) {
			got[m[1]] = append(got[m[1]], f[1])
		}
	}
	want := map[string][]string{}
	for _, v := range []any{
		run.StepRequest{}, run.StepResponse{}, run.Result{}, run.Input{}, run.Pending{}, run.Limits{}, run.ToolCall{}, run.Usage{}, domain.TaskError{},
	} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if strings.Contains(options, "omitempty") {
				name += "?"
			}
			want[typ.Name()] = append(want[typ.Name()], name)
		}
	}
	require.Equal(t, want, got)
}
