// Command conformance holds the domain against recorded conversations with the
// reference model of an async task book:
//
//	go run ./tests/conformance FILE
//
// FILE is JSON lines, plain or gzipped. It ends with a line "N passed, M
// failed" and exits with 1 if M > 0, with 2 if the file cannot be read.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/wakepoint/wakepoint/tests/conformance/book"
)

// shownDifferences is how many failing conversations are printed in full.
const shownDifferences = 5

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) } //nolint:forbidigo // this is main

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: conformance FILE")
		return 2
	}
	f, err := os.Open(args[0])
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	defer func() { _ = f.Close() }()
	all, err := book.Read(f)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", args[0], err)
		return 2
	}
	failed := 0
	for _, c := range all {
		if d := book.Check(c); d != "" {
			if failed++; failed <= shownDifferences {
				fmt.Fprintln(stdout, d)
			}
		}
	}
	fmt.Fprintf(stdout, "%d passed, %d failed\n", len(all)-failed, failed)
	if failed > 0 {
		return 1
	}
	return 0
}
