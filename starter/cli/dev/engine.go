package dev

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// The durabilities of the engine that a stack starts.
const (
	// DurabilityNormal may lose the last moments to a power cut; it survives a
	// crash of every process.
	DurabilityNormal = "normal"
	// DurabilityFull survives a power cut too, at about half the speed.
	DurabilityFull = "full"
)

// The ports of an engine for which nobody asked for one.
const (
	DefaultPort = 7233
	// PortDefault takes [DefaultPort], or any free port when that is taken.
	PortDefault = -1
	// uiOffset is added for the UI, as every Temporal development server does.
	uiOffset = 1000
)

// exitInUse is the embedded engine's exit code when another one has its data.
const exitInUse = 3

// Where each kind of engine keeps its data, in the data folder.
const (
	engineFolder = "engine"
	temporalFile = "temporal-cli.db"
)

const loopback = "127.0.0.1"

// engineProgram is a program that is started as the engine.
type engineProgram struct {
	Engine
	dataDir    string
	namespace  string
	durability string
	logLevel   string
	// self is this program, for the leash.
	self []string
	env  []string
	// port and uiPort are 0 for any free one; after the first start they are
	// those that it got, so that clients find the next start too.
	port, uiPort int
	// dial tells whether the engine at an address answers.
	dial func(ctx context.Context, address string) error
}

// ready is what the embedded engine writes once it answers.
type ready struct {
	PID             int    `json:"pid"`
	FrontendAddress string `json:"frontendAddress"`
	UIURL           string `json:"uiUrl"`
}

// choosePorts settles what has to be known before the first start.
func (e *engineProgram) choosePorts(port, uiPort int) error {
	e.port, e.uiPort = port, uiPort
	if port == PortDefault {
		e.port = 0
		if portFree(DefaultPort) {
			e.port = DefaultPort
		}
	}
	if e.Kind != KindTemporal {
		return nil
	}
	// The temporal command is told its ports: it has no way to say which it took.
	var err error
	if e.port == 0 {
		if e.port, err = freePort(); err != nil {
			return err
		}
	}
	switch {
	case e.uiPort > 0:
	case e.uiPort == PortDefault && portFree(e.port+uiOffset):
		e.uiPort = e.port + uiOffset
	default:
		e.uiPort, err = freePort()
	}
	return err
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func (e *engineProgram) readyFile() string { return filepath.Join(e.dataDir, engineReadyFile) }

// command makes the command line of one start.
func (e *engineProgram) command() (*exec.Cmd, error) {
	if err := remove(e.readyFile()); err != nil {
		return nil, err
	}
	var argv []string
	switch e.Kind {
	case KindOwn:
		argv = []string{
			e.Path, "server", "start-dev", "--data-dir", filepath.Join(e.dataDir, engineFolder), "--port", strconv.Itoa(e.port),
			"--namespace", e.namespace, "--synchronous", e.durability, "--ready-file", e.readyFile(), "--exit-with-stdin",
		}
		if e.uiPort != PortDefault {
			argv = append(argv, "--ui-port", strconv.Itoa(e.uiPort))
		}
		if e.logLevel != "" {
			argv = append(argv, "--log-level", e.logLevel)
		}
	case KindTemporal:
		argv = append(append([]string{}, e.self...),
			e.Path, "server", "start-dev", "--db-filename", filepath.Join(e.dataDir, temporalFile), "--port", strconv.Itoa(e.port),
			"--ui-port", strconv.Itoa(e.uiPort), "--namespace", e.namespace, "--log-level", cmp.Or(e.logLevel, "error"),
			// More than ten updates in flight stall a task by far more than an error.
			"--dynamic-config-value", "history.maxInFlightUpdates=1000", "--dynamic-config-value", "history.MaxBufferedQueryCount=10")
	case KindOutside:
		return nil, errors.New("an outside engine is not started")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = e.env
	return cmd, nil
}

// answers waits until the engine answers and keeps the ports that it took.
func (e *engineProgram) answers(ctx context.Context, pid int) error {
	if e.Kind == KindTemporal {
		return poll(ctx, func() bool { return e.dial(ctx, e.address()) == nil })
	}
	var r ready
	if err := poll(ctx, func() bool { return readReady(e.readyFile(), pid, &r) }); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(r.FrontendAddress)
	if err != nil {
		return fmt.Errorf("read the engine's address: %w", err)
	}
	if e.port, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("read the engine's port: %w", err)
	}
	if ui, err := url.Parse(r.UIURL); err == nil && ui.Port() != "" {
		e.uiPort, _ = strconv.Atoi(ui.Port())
	}
	return e.dial(ctx, e.address())
}

func (e *engineProgram) address() string { return net.JoinHostPort(loopback, strconv.Itoa(e.port)) }

func (e *engineProgram) uiURL() string {
	if e.uiPort <= 0 {
		return ""
	}
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(e.uiPort))
}

// readReady reads the ready file of the process pid.
func readReady(path string, pid int, r *ready) bool {
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, r) == nil && r.PID == pid
}

// poll asks until it is told yes. Files and ports give no event that every
// system has.
func poll(ctx context.Context, yes func() bool) error {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for !yes() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
