package exec_test

import (
	"encoding/json"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wakepoint/wakepoint/activities/tool"
	"github.com/wakepoint/wakepoint/activities/tool/exec"
)

// childful is a tool with a stubborn child, which does not die with it.
const childful = `sh -c 'trap "" TERM; echo child >> "$JOURNAL"; while :; do sleep 0.02; done' & wait`

// loseSupervisor starts a tool, waits for its note and kills its supervisor. The tool dies, its
// children do not: the kernel tells only the tool.
func loseSupervisor(t *testing.T, b *bench, e *exec.Executor, awaited string) tool.Handle {
	t.Helper()
	h := submit(t, e, request("k"))
	b.awaitNote(awaited)
	supervisor, toolPID := identity(t, e, h)
	kill(t, supervisor)
	awaitLoss(t, e, "k", toolPID)
	return h
}

// editIdentity changes identity.json of a run.
func editIdentity(t *testing.T, e *exec.Executor, h tool.Handle, edit func(id map[string]any)) {
	t.Helper()
	path := filepath.Join(exec.RunDir(e, h.ID), "identity.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var id map[string]any
	if err := json.Unmarshal(data, &id); err != nil {
		t.Fatal(err)
	}
	edit(id)
	if data, err = json.Marshal(id); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whoever finds a loss ends what is left of it before it says lost.
func TestRemainsOfAKilledSupervisorAreEnded(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(id map[string]any){
		"known by their group": func(map[string]any) {},
		// As if the supervisor had died between starting the tool and writing down who it is.
		"known by their token": func(id map[string]any) { delete(id, "tool") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.script(childful)
			h := loseSupervisor(t, b, e, "child")
			if len(b.processes()) == 0 {
				t.Fatal("the children died by themselves; the test shows nothing")
			}
			editIdentity(t, e, h, edit)
			wantLost(t, settled(t, e, h), "killed")
			if pids := b.processes(); len(pids) != 0 {
				t.Errorf("called lost, and still running: %v", pids)
			}
		})
	}
}

// A next attempt does not start beside what is left of the lost one.
func TestNextAttemptEndsTheRemainsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(childful)
	h := loseSupervisor(t, b, e, "child")
	remains := b.processes()
	next := request("k")
	next.Attempt = 2
	second := submit(t, e, next)
	for _, pid := range remains {
		if !dead(pid) {
			t.Errorf("process %d of the lost run lives beside the next one", pid)
		}
	}
	if obs := observe(t, e, second); obs.State != tool.StateRunning {
		t.Errorf("second run: %s", dump(obs))
	}
	wantLost(t, observe(t, e, h), "killed")
}

// bystander is a process in a group of its own that has nothing to do with any run.
func bystander(t *testing.T, script string) int {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// The number of the dead tool has been given to another process. It is not touched.
func TestReusedPidIsNotTrusted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("ready") + `while :; do sleep 0.02; done`)
	h := loseSupervisor(t, b, e, "ready")
	pid := bystander(t, "exec sleep 1000")
	editIdentity(t, e, h, func(id map[string]any) {
		id["tool"].(map[string]any)["pid"] = pid // the recorded start is another's
		id["supervisor"].(map[string]any)["pid"] = pid
	})
	wantLost(t, settled(t, e, h), "killed")
	cancel(t, e, h)
	if dead(pid) {
		t.Error("a stranger was killed for its number")
	}
}

// A group has the number of the dead tool, its leader is gone too, and nothing shows whose it is.
// It is neither killed nor taken for gone.
func TestDoubtfulGroupIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(note("ready") + `while :; do sleep 0.02; done`)
	h := loseSupervisor(t, b, e, "ready")
	file := filepath.Join(b.dir, "member")
	leader := bystander(t, `sleep 1000 & echo $! > "`+file+`.new"; mv "`+file+`.new" "`+file+`"`)
	eventually(t, "the leader is dead", func() bool { return dead(leader) })
	editIdentity(t, e, h, func(id map[string]any) {
		id["tool"].(map[string]any)["pid"] = leader
		id["tool"].(map[string]any)["start"] = 1
	})
	// The leader is a zombie of this test, with another start than recorded: a stranger's group.
	wantLost(t, observe(t, e, h), "killed")

	// Once it is reaped nothing is known of it any more.
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(leader, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	obs := observe(t, e, h)
	if obs.State != tool.StateUnknown || obs.Definite || obs.Error == nil || !strings.Contains(obs.Error.Message, "may still run") {
		t.Errorf("observation = %s, want unknown", dump(obs))
	}
	next := request("k")
	next.Attempt = 2
	if _, err := e.Submit(t.Context(), next); err == nil {
		t.Error("a next run was started beside what may be the last one")
	} else if _, definite := tool.DefiniteFailure(err); definite {
		t.Errorf("error %v is definite, want ambiguous", err)
	}
	if err := e.Cancel(t.Context(), h); err == nil {
		t.Error("cancel of what can't be told from a stranger's: no error")
	}
	if groupSize(t, leader) != 1 {
		t.Fatal("a group that may be a stranger's was killed")
	}
	if err := syscall.Kill(-leader, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is known to be gone", func() bool { return observe(t, e, h).State.Terminal() })
}

// groupSize counts the living members of a process group.
func groupSize(t *testing.T, pgrp int) int {
	t.Helper()
	out, err := osexec.CommandContext(t.Context(), "ps", "-e", "-o", "pgid=,stat=").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		var group int
		if err := json.Unmarshal([]byte(fields[0]), &group); err != nil {
			t.Fatal(err)
		}
		if group == pgrp && !strings.HasPrefix(fields[1], "Z") {
			n++
		}
	}
	return n
}

// After a restart of the host the numbers mean nothing, even if everything else agrees.
func TestRestartedHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.script(childful)
	h := loseSupervisor(t, b, e, "child")
	editIdentity(t, e, h, func(id map[string]any) { id["bootId"] = "00000000-0000-0000-0000-000000000000" })
	wantLost(t, observe(t, e, h), "restarted")
	if len(b.processes()) == 0 {
		t.Error("processes were killed on the word of another boot")
	}
}
