package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wakepoint/wakepoint/activities/tool"
)

// The files of a key (its locks) and of a run. All JSON is written beside its place, then renamed,
// so that a reader never sees half of it. What the truth depends on is synced before the rename.
const (
	// lockFile is held by the supervisor while anything of the run may live.
	lockFile = "lock"
	// submitLockFile is held by Submit while it decides and starts.
	submitLockFile = "submit.lock"

	requestFile  = "request.json"   // by Submit, synced: what to run
	inputFile    = "input.json"     // by Submit, synced: the tool's stdin and WAKEPOINT_INPUT
	identityFile = "identity.json"  // by the supervisor, synced: who runs it
	progressFile = "progress.json"  // by the supervisor, a hint
	statusFile   = "status.json"    // by the supervisor, synced: how it ended; or by who called the start off
	cancelFile   = "cancel"         // by Cancel, synced: please end
	resultFile   = "result"         // by the tool: WAKEPOINT_RESULT
	storedFile   = "stored.json"    // by Observe: where the result was stored
	workDir      = "work"           // the tool's working directory
	selfLogFile  = "supervisor.log" // what the supervisor has to say, normally nothing
)

// runRequest is request.json.
type runRequest struct {
	Version        int         `json:"version"`
	Tenant         string      `json:"tenant"`
	TaskID         string      `json:"taskId"`
	Attempt        int         `json:"attempt"`
	SubmissionKey  string      `json:"submissionKey"`
	Tool           string      `json:"tool"`
	Argv           []string    `json:"argv"`
	Dir            string      `json:"dir"`
	DeadlineAtMs   int64       `json:"deadlineAtMs,omitempty"`
	MaxOutputBytes int64       `json:"maxOutputBytes"`
	OnOutputLimit  OutputLimit `json:"onOutputLimit"`
	KillGraceMs    int64       `json:"killGraceMs"`
	AckTimeoutMs   int64       `json:"ackTimeoutMs"`
	CreatedAtMs    int64       `json:"createdAtMs"`
	// Token is a random mark in the environment of the run's processes, by which they are known
	// again when their leader is gone.
	Token string `json:"token"`
}

// identity is identity.json. It is written before the tool exists, and again with the tool.
type identity struct {
	Version int `json:"version"`
	// BootID is the kernel's: after a restart no process of before lives.
	BootID     string     `json:"bootId"`
	Supervisor processID  `json:"supervisor"`
	Tool       *processID `json:"tool,omitempty"`
}

// processID names a process over time: the kernel gives a pid to another process when it is free.
type processID struct {
	PID int `json:"pid"`
	// Start is when the process started, in the kernel's own unit since boot.
	Start uint64 `json:"start"`
}

// progress is progress.json.
type progress struct {
	Version  int    `json:"version"`
	Progress *int   `json:"progress,omitempty"`
	Stage    string `json:"stage,omitempty"`
	AtMs     int64  `json:"atMs"`
}

// Why a run was ended from the outside.
const (
	endedByCancel      = "cancel"
	endedByDeadline    = "deadline"
	endedByOutputLimit = "outputLimit"
	endedByTermination = "terminated" // the supervisor was asked to end, as when the host shuts down
)

// status is status.json.
type status struct {
	Version int `json:"version"`
	// NotStarted says why the run has no process and never will.
	NotStarted string `json:"notStarted,omitempty"`
	// StartError is the kernel's word when the program could not be started.
	StartError string `json:"startError,omitempty"`
	// EndedBy is empty when the tool ended by itself.
	EndedBy  string `json:"endedBy,omitempty"`
	ExitCode int    `json:"exitCode"`
	// Signal is the number of the signal that ended the tool, 0 for none.
	Signal      int          `json:"signal,omitempty"`
	StartedAtMs int64        `json:"startedAtMs,omitempty"`
	EndedAtMs   int64        `json:"endedAtMs"`
	Stdout      streamStatus `json:"stdout"`
	Stderr      streamStatus `json:"stderr"`
	// Leftovers is how many processes of the group had to be ended after the tool.
	Leftovers int `json:"leftovers,omitempty"`
}

// streamStatus is what became of stdout or stderr.
type streamStatus struct {
	// Bytes is how many the tool wrote, without control lines.
	Bytes     int64 `json:"bytes"`
	Truncated bool  `json:"truncated,omitempty"`
	// Error says why the log ends early.
	Error string `json:"error,omitempty"`
}

// layoutVersion is the version of the files. A reader ignores fields it does not know.
const layoutVersion = 1

func keyHash(submissionKey string) string {
	sum := sha256.Sum256([]byte(submissionKey))
	return hex.EncodeToString(sum[:])
}

const runPrefix = "run-"

func runName(n int) string { return runPrefix + strconv.Itoa(n) }

// latestRun is the number of the newest run in a key's folder, 0 when there is none.
func latestRun(keyDir string) (int, error) {
	entries, err := os.ReadDir(keyDir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	latest := 0
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), runPrefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && runName(n) == e.Name() {
			latest = max(latest, n)
		}
	}
	return latest, nil
}

// handleID is "<hash of the key>.<run>".
func handleID(hash string, run int) string { return hash + "." + strconv.Itoa(run) }

// parseHandleID is strict, since what it gives becomes a path.
func parseHandleID(id string) (hash string, run int, err error) {
	hash, number, ok := strings.Cut(id, ".")
	run, convErr := strconv.Atoi(number)
	if raw, hexErr := hex.DecodeString(hash); !ok || hexErr != nil || len(raw) != sha256.Size || convErr != nil || run < 1 || handleID(strings.ToLower(hash), run) != id {
		return "", 0, fmt.Errorf("%w: id %q must be <sha256>.<run>", tool.ErrUnknownHandle, id)
	}
	return hash, run, nil
}

// writeJSON writes a file whole or not at all, and onto the disk when durable.
func writeJSON(path string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'), durable)
}

func writeFile(path string, data []byte, durable bool) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if durable {
		return syncDir(dir)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// readJSON reads a file of the layout; false when it is not there.
func readJSON(path string, v any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// modified is when a file was written, in milliseconds since the epoch; false when it is not there.
func modified(path string) (atMs int64, there bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return info.ModTime().UnixMilli(), true, nil
}
