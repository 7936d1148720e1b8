package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/config"
)

func TestSetupWarnsOfLifetimesBeyondTheRetention(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{}":              "",
		"resultTTL: 168h": "",
		"resultTTL: 8d":   "note: resultTTL of the installation is 8d, but results can be found for 7d only: the namespace forgets their tasks then",
		"tools: {a: {executor: external, resultTTL: 9d}, b: {executor: external, resultTTL: 8d}}": "note: resultTTL of tool a is 9d, but results can be found for 7d only: the namespace forgets their tasks then",
	} {
		cfg, err := config.Parse("wakepoint.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		warnOfLifetimes(func(format string, args ...any) { said += fmt.Sprintf(format, args...) }, cfg, 7*24*time.Hour)
		if said != want {
			t.Errorf("%s: %q, want %q", text, said, want)
		}
	}
}
