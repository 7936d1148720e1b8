package dev_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/starter/cli/dev"
)

func TestStackStartsEngineFirstAndStopsItLast(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	o := options(program(t, "wakepoint-engine"), data)
	o.Config, o.Namespace, o.Durability = "/tools.yaml", "ns", dev.DurabilityNormal
	prepared := ""
	o.Prepare = func(_ context.Context, info dev.Info) error {
		note(data, "prepare")
		prepared = info.Address
		return nil
	}
	s, _ := start(t, o)
	info := s.Info()
	if info.Address == "" || prepared != info.Address || info.UIURL != "http://127.0.0.1:4711" || info.Durability != "normal" || info.Namespace != "ns" {
		t.Errorf("the stack says %+v, prepared %q", info, prepared)
	}
	if found, ok := dev.Find(data); !ok || found != info {
		t.Errorf("Find = %+v, %v, want %+v", found, ok, info)
	}
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	want := []string{"engine starts", "prepare", "worker starts", "worker ends by terminated", "engine ends by terminated"}
	if got := order(t, data); !slices.Equal(got, want) {
		t.Errorf("the order was %q, want %q", got, want)
	}
	if _, ok := dev.Find(data); ok {
		t.Error("a stack that has stopped is found")
	}
	if left, _ := filepath.Glob(filepath.Join(data, "*.json")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSecondInstanceIsToldWhoHoldsTheFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	engine := program(t, "wakepoint-engine")
	start(t, options(engine, data))
	_, err := dev.Start(t.Context(), options(engine, data))
	var inUse *dev.InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.DataDir != data {
		t.Errorf("the second instance got %v (%+v)", err, inUse)
	}
	if _, ok := dev.Find(data); !ok {
		t.Error("the refused instance took the first one's file away")
	}
}

func TestKilledWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, e := start(t, options(program(t, "wakepoint-engine"), data))
	first, err := s.KillWorker()
	if err != nil {
		t.Fatal(err)
	}
	died := e.next(t, "worker", dev.Died)
	var exit *dev.ExitError
	if died.PID != first || !errors.As(died.Err, &exit) || exit.Code != -1 || exit.How != "signal: killed" {
		t.Errorf("told of %+v, want the death of %d by a signal", died, first)
	}
	second, err := s.AwaitWorker(t.Context(), first)
	if err != nil || second == first {
		t.Errorf("AwaitWorker = %d, %v; the first was %d", second, err, first)
	}
}

func TestKilledEngineComesBackAtItsAddress(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, e := start(t, options(program(t, "wakepoint-engine"), data))
	pid := e.next(t, "engine", dev.Started).PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.next(t, "engine", dev.Died)
	if again := e.next(t, "engine", dev.Ready).PID; again == pid {
		t.Errorf("process %d is ready again after its death", pid)
	}
	if err := dial(t.Context(), s.Info().Address); err != nil {
		t.Errorf("the address of before does not answer: %v", err)
	}
}

func TestPauseGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, e := start(t, options(program(t, "wakepoint-engine"), data))
	setMode(t, data, "worker", "crash")
	if _, err := s.KillWorker(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{1, 2, 4, 4} {
		if got := e.next(t, "worker", dev.Waiting).Pause; got != want*time.Millisecond {
			t.Errorf("pause %d is %v, want %v", i, got, want*time.Millisecond)
		}
	}
	setMode(t, data, "worker", "")
	e.next(t, "worker", dev.Ready)
}

func TestSteadyChildPausesShortlyAgain(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	o := options(program(t, "wakepoint-engine"), data)
	o.Backoff = dev.Backoff{First: time.Millisecond, Last: time.Minute, Steady: time.Nanosecond}
	s, e := start(t, o)
	for range 3 {
		pid, err := s.KillWorker()
		if err != nil {
			t.Fatal(err)
		}
		if got := e.next(t, "worker", dev.Waiting).Pause; got != time.Millisecond {
			t.Errorf("the pause is %v, want that of the first death", got)
		}
		if _, err := s.AwaitWorker(t.Context(), pid); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatCannotStartIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		child, mode string
		code        int
		word        string
	}{
		"engine": {"engine", "broken", 1, "error: the disk is full"},
		"worker": {"worker", "broken", 2, "error: no such tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			setMode(t, data, c.child, c.mode)
			_, err := dev.Start(t.Context(), options(program(t, "wakepoint-engine"), data))
			var exit *dev.ExitError
			if !errors.As(err, &exit) || exit.Name != c.child || exit.Code != c.code || !slices.Contains(exit.Tail, c.word) {
				t.Errorf("the error is %v (%+v)", err, exit)
			}
			if _, ok := dev.Find(data); ok {
				t.Error("the folder is still held")
			}
			if c.child == "worker" {
				if got := order(t, data); got[len(got)-1] != "engine ends by terminated" {
					t.Errorf("the engine was left behind: %q", got)
				}
			}
		})
	}
}

func TestEngineLeftBehindIsWaitedFor(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	setMode(t, data, "engine", "in-use")
	o := options(program(t, "wakepoint-engine"), data)
	refused := 0
	o.Notify = func(ev dev.Event) {
		if ev.What == dev.Waiting && ev.Child == "engine" {
			if refused++; refused == 3 {
				_ = os.Remove(filepath.Join(data, "engine.mode"))
			}
		}
	}
	s, err := dev.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if refused < 3 {
		t.Errorf("the engine was refused %d times", refused)
	}
}

func TestEngineThatKeepsTheDataIsGivenUp(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	setMode(t, data, "engine", "in-use")
	o := options(program(t, "wakepoint-engine"), data)
	o.Handover = time.Nanosecond
	_, err := dev.Start(t.Context(), o)
	var exit *dev.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("the error is %v", err)
	}
}

func TestSilentEngineIsKilled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	setMode(t, data, "engine", "silent")
	o := options(program(t, "wakepoint-engine"), data)
	o.Patience = 50 * time.Millisecond
	_, err := dev.Start(t.Context(), o)
	var exit *dev.ExitError
	if !errors.As(err, &exit) || exit.How != "signal: killed" || !strings.Contains(strings.Join(exit.Tail, " "), "did not answer within 50ms") {
		t.Errorf("the error is %v (%+v)", err, exit)
	}
}

func TestStartCanBeCalledOff(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	setMode(t, data, "engine", "silent")
	ctx, cancel := context.WithCancel(t.Context())
	o := options(program(t, "wakepoint-engine"), data)
	o.Notify = func(ev dev.Event) {
		if ev.What == dev.Started {
			cancel()
		}
	}
	if _, err := dev.Start(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestStubbornWorkerIsKilledAndTheEngineStillStopsCleanly(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	setMode(t, data, "worker", "stubborn")
	o := options(program(t, "wakepoint-engine"), data)
	s, e := start(t, o)
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(hurry); err != nil {
		t.Error(err)
	}
	if ev := e.next(t, "worker", dev.Stopped); ev.Err == nil || ev.Err.Error() != "killed, as asked" {
		t.Errorf("of the worker that had to be killed is told %v", ev.Err)
	}
	e.next(t, "engine", dev.Stopped)
}

func TestLostDataFolderEndsTheStack(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]bool{"removed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			o := options(program(t, "wakepoint-engine"), data)
			o.Watch = time.Millisecond
			s, _ := start(t, o)
			if err := os.Rename(data, data+".old"); err != nil {
				t.Fatal(err)
			}
			theirs := filepath.Join(data, "dev.json")
			if replace {
				if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(data, "dev.lock"), nil, 0o600), os.WriteFile(theirs, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Wait(t.Context()); !errors.Is(err, dev.ErrFolderLost) {
				t.Errorf("the stack ended by %v", err)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(theirs); replace && err != nil {
				t.Errorf("a file of the new folder was taken away: %v", err)
			}
		})
	}
}

func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cmd := exec.Command(self(), "fake-dev", program(t, "wakepoint-engine"), data)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	has := func(line string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(filepath.Join(data, "order.log"))
			return slices.Contains(strings.Split(string(b), "\n"), line)
		}
	}
	eventually(t, "the stack is up", has("up"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the worker ends", has("worker ends by stdin"))
	eventually(t, "the engine ends", has("engine ends by stdin"))
	if _, ok := dev.Find(data); ok {
		t.Error("the folder of a killed process is held")
	}
	// The file of the killed process is there, and in nobody's way.
	start(t, options(program(t, "wakepoint-engine"), data))
}

func TestTemporalCommandRunsOnALeash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	o := options("", data)
	o.Engine = dev.Engine{Kind: dev.KindTemporal, Path: program(t, "temporal")}
	o.Port, o.UIPort = freePort(t), freePort(t)
	s, _ := start(t, o)
	if info := s.Info(); info.Engine != dev.KindTemporal || info.UIURL == "" || info.Durability != "" {
		t.Errorf("the stack says %+v", info)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := order(t, data); got[len(got)-1] != "engine ends by terminated" {
		t.Errorf("the order was %q", got)
	}
}

func TestOutsideEngineIsOnlyReached(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	o := options("", data)
	asked := ""
	o.Dial = func(_ context.Context, address string) error {
		asked = address
		return nil
	}
	o.Engine = dev.Engine{Kind: dev.KindOutside, Address: "cluster:7233"}
	s, _ := start(t, o)
	if asked != "cluster:7233" || s.Info().Address != asked {
		t.Errorf("asked %q, the stack says %+v", asked, s.Info())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := order(t, data); !slices.Equal(got, []string{"worker starts", "worker ends by terminated"}) {
		t.Errorf("the order was %q", got)
	}
	o.Dial = func(context.Context, string) error { return errors.New("refused") }
	if _, err := dev.Start(t.Context(), o); !errors.Is(err, dev.ErrNotReached) {
		t.Errorf("the error is %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*dev.Options){
		"dataDir must be set":                func(o *dev.Options) { o.DataDir = "" },
		"dial must be set":                   func(o *dev.Options) { o.Dial = nil },
		"durability must be full or normal":  func(o *dev.Options) { o.Durability = "some" },
		"port must be 0 (any free one) to":   func(o *dev.Options) { o.Port = 70_000 },
		"uiPort must be 0 (any free one) to": func(o *dev.Options) { o.UIPort = -2 },
		"leash must be set":                  func(o *dev.Options) { o.Engine.Kind, o.Leash = dev.KindTemporal, nil },
	} {
		o := options("", t.TempDir())
		change(&o)
		if _, err := dev.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
