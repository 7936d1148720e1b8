package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Info is where everything is, as the file dev.json of the data folder says it
// to the other commands while a stack runs. Fields are only ever added.
type Info struct {
	// PID of the process that supervises.
	PID int `json:"pid"`
	// Address is the host:port of the engine for Temporal clients.
	Address string `json:"address"`
	// Namespace is the one that the worker works in.
	Namespace string `json:"namespace"`
	// UIURL is where a browser finds the Temporal UI; empty if it is not known.
	UIURL string `json:"uiUrl,omitempty"`
	// DataDir is the data folder, absolute.
	DataDir string `json:"dataDir"`
	// Config is the file with the tools, absolute; empty when there is none.
	Config string `json:"config,omitempty"`
	// Engine says what kind of engine it is: wakepoint-engine, temporal or outside.
	Engine Kind `json:"engine"`
	// EngineVersion is its own word, if it gives any.
	EngineVersion string `json:"engineVersion,omitempty"`
	// Durability is full or normal, where this process chose it.
	Durability string `json:"durability,omitempty"`
}

// Find reads where the stack of a data folder is. It gives false when none
// runs; the file alone proves nothing, it outlives a process that was killed.
func Find(dir string) (Info, bool) {
	if !held(dir) {
		return Info{}, false
	}
	var info Info
	b, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil || json.Unmarshal(b, &info) != nil || info.Address == "" {
		return Info{}, false
	}
	return info, true
}

// WriteFile puts v as JSON at path in one step, so that a reader sees all of it
// or nothing.
func WriteFile(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = draft.Write(append(b, '\n'))
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		_ = os.Remove(draft.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// remove takes a file away; one that is not there is fine.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Occupancy is what a data folder says of a stack.
type Occupancy int

// The occupancies of a data folder.
const (
	// Vacant: no stack runs, and none has kept an engine's data there.
	Vacant Occupancy = iota
	// Starting: a process holds the folder and has not said yet where its engine is.
	Starting
	// Running: [Info] says where everything is.
	Running
	// Dormant: an engine has kept its data there, and nothing runs.
	Dormant
)

// Look tells what is in a data folder. Info is set while a stack is [Running].
func Look(dir string) (Info, Occupancy) {
	if info, ok := Find(dir); ok {
		return info, Running
	}
	if held(dir) {
		return Info{}, Starting
	}
	for _, name := range []string{engineFolder, temporalFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return Info{}, Dormant
		}
	}
	return Info{}, Vacant
}

// Await is [Look] that waits for a stack which is starting: until it runs, is
// given up, or ctx ends.
func Await(ctx context.Context, dir string) (info Info, o Occupancy) {
	const pause = 50 * time.Millisecond
	for {
		if info, o = Look(dir); o != Starting {
			return info, o
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return info, o
		}
	}
}
