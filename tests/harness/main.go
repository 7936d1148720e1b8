package harness

import (
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package on one engine, which it starts on files of its own
// and stops. It gives the exit code.
func Main(m *testing.M, engine **Engine) int {
	dir, err := os.MkdirTemp("", "wakepoint-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *engine, err = StartEngine(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer (*engine).Stop()
	return m.Run()
}
