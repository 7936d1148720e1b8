package outside_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wakepoint/wakepoint/tests/harness"
)

// programEnv names the program whose workers are tested, for trying one that is not in bin/.
const programEnv = "WAKEPOINT_PROGRAM"

// fleet is the worker processes of an installation. They are killed and replaced.
type fleet struct {
	t       testing.TB
	program string
	args    []string
	dir     string

	mu      sync.Mutex
	running map[string]*member
	kills   int
	closed  bool
}

// member is one worker process.
type member struct {
	cmd  *exec.Cmd
	gone chan struct{}
	// wanted: it was killed on purpose.
	wanted bool
}

// newFleet starts a worker for each host.
func newFleet(t testing.TB, dir, config, address string, hosts ...string) *fleet {
	t.Helper()
	program := os.Getenv(programEnv)
	if program == "" {
		program = filepath.Join(harness.Root(), "bin", "wakepoint")
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("the program is missing, run `make build`: %v", err)
	}
	f := &fleet{t: t, program: program, dir: dir, running: map[string]*member{}, args: []string{"worker", "--config", config, "--address", address}}
	for _, host := range hosts {
		if err := f.start(host); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(f.close)
	return f
}

func (f *fleet) start(host string) error {
	log, err := os.OpenFile(f.logOf(host), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(f.program, append(f.args, "--host", host)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{cmd: cmd, gone: make(chan struct{})}
	f.mu.Lock()
	f.running[host] = m
	f.mu.Unlock()
	go func() {
		err := cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if !m.wanted {
			said, _ := os.ReadFile(f.logOf(host))
			f.t.Errorf("the worker of %s ended by itself: %v\n%s", host, err, said)
		}
		close(m.gone)
	}()
	return nil
}

func (f *fleet) logOf(host string) string { return filepath.Join(f.dir, host+".log") }

// kill kills a worker with SIGKILL and waits until it is gone.
func (f *fleet) kill(host string) error {
	f.mu.Lock()
	m := f.running[host]
	m.wanted = true
	f.kills++
	err := m.cmd.Process.Signal(syscall.SIGKILL)
	f.mu.Unlock()
	<-m.gone
	return err
}

// killing kills workers at random moments until it is told to stop: most often one, sometimes all,
// which are missed for a while then. It gives how often.
func (f *fleet) killing(stop <-chan struct{}, rng *rand.Rand, longest time.Duration, hosts ...string) (int, error) {
	for {
		select {
		case <-stop:
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.kills, nil
		case <-time.After(time.Second + time.Duration(rng.Int64N(int64(longest)))):
		}
		hit := []string{hosts[rng.IntN(len(hosts))]}
		if rng.IntN(4) == 0 {
			hit = hosts
		}
		for _, host := range hit {
			if err := f.kill(host); err != nil {
				return 0, fmt.Errorf("kill the worker of %s: %w", host, err)
			}
		}
		<-time.After(time.Duration(rng.Int64N(int64(time.Second))))
		for _, host := range hit {
			if err := f.start(host); err != nil {
				return 0, fmt.Errorf("replace the worker of %s: %w", host, err)
			}
		}
	}
}

// close ends all workers.
func (f *fleet) close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	var all []*member
	for _, m := range f.running {
		m.wanted = true
		_ = m.cmd.Process.Signal(syscall.SIGKILL) // it may be gone
		all = append(all, m)
	}
	f.mu.Unlock()
	for _, m := range all {
		<-m.gone
	}
}
