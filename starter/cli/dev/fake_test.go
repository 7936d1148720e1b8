package dev_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

// TestMain makes this test program the fake of every program that a stack
// starts: which one, its name says, or its first argument.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	name := filepath.Base(os.Args[0])
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(os.Stdout, map[string]string{"wakepoint-engine": "wakepoint-engine 9.9 (fake)", "temporal": "temporal version 1.9 (fake)"}[name])
	case len(args) > 0 && args[0] == "server":
		os.Exit(fakeEngine(name, args))
	case len(args) > 0 && args[0] == "fake-worker":
		os.Exit(fakeWorker(args[1], args[2]))
	case len(args) > 0 && args[0] == "fake-dev":
		os.Exit(fakeDev(args[1], args[2]))
	case len(args) > 0 && args[0] == "fake-leash":
		code, err := dev.Leash(args[1:], os.Stdin, os.Stdout, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(code)
	default:
		os.Exit(m.Run())
	}
}

func option(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// note appends a line to a file that all processes of a test share.
func note(dir, format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(dir, "order.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(f, format+"\n", args...)
	if err := f.Close(); err != nil {
		panic(err)
	}
}

// mode is what a test wants the fake called name to do.
func mode(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name+".mode"))
	return string(b)
}

// ended waits for a signal or for the end of standard input, and says which.
func ended(watchStdin bool) string {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	eof := make(chan struct{})
	if watchStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(eof)
		}()
	}
	select {
	case s := <-ch:
		return s.String()
	case <-eof:
		return "stdin"
	}
}

func fakeEngine(name string, args []string) int {
	data := filepath.Dir(option(args, "--data-dir"))
	if name == "temporal" {
		data = filepath.Dir(option(args, "--db-filename"))
	}
	switch mode(data, "engine") {
	case "broken":
		fmt.Fprintln(os.Stderr, "error: the disk is full")
		return 1
	case "in-use":
		note(data, "engine refused")
		return 3
	case "silent":
		ended(true)
		return 0
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+option(args, "--port"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	note(data, "engine starts")
	fmt.Fprintln(os.Stderr, "warning: fake")
	if path := option(args, "--ready-file"); path != "" {
		if err := dev.WriteFile(path, map[string]any{"pid": os.Getpid(), "frontendAddress": l.Addr().String(), "uiUrl": "http://127.0.0.1:4711"}); err != nil {
			return 1
		}
	}
	note(data, "engine ends by %s", ended(slices.Contains(args, "--exit-with-stdin")))
	return 0
}

func fakeWorker(data, ready string) int {
	if mode(data, "worker") == "broken" {
		fmt.Fprintln(os.Stderr, "error: no such tool")
		return 2
	}
	note(data, "worker starts")
	if err := dev.WriteFile(ready, map[string]int{"pid": os.Getpid()}); err != nil {
		return 1
	}
	switch mode(data, "worker") {
	case "crash":
		return 1
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	note(data, "worker ends by %s", ended(true))
	return 0
}

// fakeDev is a program that supervises a stack, to be killed.
func fakeDev(engine, data string) int {
	s, err := dev.Start(context.Background(), options(engine, data))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	note(data, "up")
	_ = s.Wait(context.Background())
	return 0
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// program makes a fake of the given name.
func program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

func dial(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func options(engine, data string) dev.Options {
	return dev.Options{
		DataDir: data, Engine: dev.Engine{Kind: dev.KindOwn, Path: engine, Version: "fake"}, Env: os.Environ(), Dial: dial,
		Worker: func(_ dev.Info, ready string) []string { return []string{self(), "fake-worker", data, ready} },
		Leash:  []string{self(), "fake-leash"}, Patience: 20 * time.Second, Grace: 20 * time.Second,
		Backoff: dev.Backoff{First: time.Millisecond, Last: 4 * time.Millisecond},
	}
}

// setMode tells the fake called name what to do.
func setMode(t *testing.T, dir, name, mode string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name+".mode"), []byte(mode), 0o600); err != nil {
		t.Fatal(err)
	}
}

// events are what a stack tells, to be waited for.
type events struct{ ch chan dev.Event }

func newEvents() *events { return &events{ch: make(chan dev.Event, 10_000)} }

// next waits for an event of a child.
func (e *events) next(t *testing.T, child string, what dev.Happening) dev.Event {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case ev := <-e.ch:
			if ev.Child == child && ev.What == what {
				return ev
			}
		case <-timeout:
			t.Fatalf("the %s was never %s", child, what)
		}
	}
}

// start starts a stack that the test's end stops.
func start(t *testing.T, o dev.Options) (*dev.Stack, *events) {
	t.Helper()
	e := newEvents()
	o.Notify = func(ev dev.Event) { e.ch <- ev }
	s, err := dev.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s, e
}

// order reads what the fakes noted.
func order(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "order.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// eventually waits for a condition of another process, which gives no event.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-ticker.C
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
