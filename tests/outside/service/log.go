package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// What an [Entry] tells.
const (
	// LogStarted: a job was really started.
	LogStarted = "started"
	// LogEnded: a job ended in Entry.State.
	LogEnded = "ended"
	// LogForgot: a job that is over is forgotten.
	LogForgot = "forgot"
	// LogRefused: a POST was refused for good, and started nothing.
	LogRefused = "refused"
	// LogDisturbed: the service misbehaved, as Entry.Fault says.
	LogDisturbed = "disturbed"
)

// Entry is a line of the log.
type Entry struct {
	Seq  int    `json:"seq"`
	AtMs int64  `json:"atMs"`
	What string `json:"what"`
	Mode Mode   `json:"mode"`
	Key  string `json:"key"`
	// Task and Attempt are those that the POST named.
	Task    string `json:"task,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Job     string `json:"job,omitempty"`
	State   string `json:"state,omitempty"`
	Fault   Fault  `json:"fault,omitempty"`
	// Cancelled: it was asked to end before it did.
	Cancelled bool `json:"cancelled,omitempty"`
}

// evidence is the log that is being written.
type evidence struct {
	mu  sync.Mutex
	f   *os.File
	seq int
	err error
}

func openEvidence(path string) (*evidence, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &evidence{f: f}, nil
}

// add writes a line and syncs it. A log that could not be written is worth nothing, so the error
// stays until [Server.Close].
func (e *evidence) add(entry Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	entry.Seq, entry.AtMs = e.seq, time.Now().UnixMilli()
	line, err := json.Marshal(entry)
	if err == nil {
		_, err = e.f.Write(append(line, '\n'))
	}
	if err == nil && entry.What != LogDisturbed {
		err = e.f.Sync()
	}
	if e.err == nil {
		e.err = err
	}
}

func (e *evidence) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.f.Close(); e.err == nil {
		e.err = err
	}
	return e.err
}

// ReadLog reads a log.
func ReadLog(path string) ([]Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range bytes.Lines(data) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
