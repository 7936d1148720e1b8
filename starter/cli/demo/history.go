package demo

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// HistoryResult sums up the git history of the tree.
type HistoryResult struct {
	// Commits that were looked at; Left are older ones that were not.
	Commits int `json:"commits"`
	Left    int `json:"left,omitempty"`
	// Shallow says that the clone does not hold the whole history.
	Shallow bool `json:"shallow,omitempty"`
	// First and Last are the days of the oldest and the newest of them.
	First string `json:"first"`
	Last  string `json:"last"`
	// Authors by commits, most first.
	Authors []Share `json:"authors"`
	// Files by the commits that changed them, most first, at most 10.
	Files []Share `json:"files"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// Share is a part of the commits.
type Share struct {
	Name    string `json:"name"`
	Commits int    `json:"commits"`
}

// The bounds of a history.
const (
	maxCommits = 3000
	maxShares  = 10
	// historySteps is how many commits go by between two words about progress.
	historySteps = 25
)

// commitMark begins the line of a commit; no line of --numstat begins so.
const commitMark = "\x01"

func history(ctx context.Context, j *job) (any, error) {
	j.report(0, 1, "counting commits")
	out, err := j.output(ctx, "git", "rev-list", "--count", "HEAD", "--", ".")
	if err != nil {
		return nil, err
	}
	total, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("count the commits: %w", err)
	}
	out, err = j.output(ctx, "git", "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	h := &historyCount{job: j, total: min(total, maxCommits), authors: map[string]*Share{}, files: map[string]*Share{}}
	h.r.Shallow = strings.TrimSpace(string(out)) == "true"
	err = j.lines(ctx, h.line, "git", "log", "--no-renames", "--numstat", "--date=short", "--format="+commitMark+"%ad %aN",
		"--max-count", strconv.Itoa(maxCommits), "HEAD", "--", ".")
	if err != nil {
		return nil, err
	}
	j.report(1, 1, "done")
	byCommits := func(s Share) (int, string) { return s.Commits, s.Name }
	h.r.Authors, h.r.Files = sorted(h.authors, byCommits), sorted(h.files, byCommits)
	h.r.Authors = h.r.Authors[:min(len(h.r.Authors), maxShares)]
	h.r.Files = h.r.Files[:min(len(h.r.Files), maxShares)]
	h.r.Left = max(total-h.r.Commits, 0)
	return h.r, nil
}

// historyCount counts the lines of git log.
type historyCount struct {
	job            *job
	r              HistoryResult
	total          int
	authors, files map[string]*Share
}

func (h *historyCount) line(line []byte) {
	if rest, ok := bytes.CutPrefix(line, []byte(commitMark)); ok {
		h.commit(string(rest))
		return
	}
	parts := strings.SplitN(string(line), "\t", 3)
	if len(parts) != 3 {
		return
	}
	// A file that is no text has a dash for its lines.
	added, _ := strconv.Atoi(parts[0])
	removed, _ := strconv.Atoi(parts[1])
	h.r.Added, h.r.Removed = h.r.Added+added, h.r.Removed+removed
	s := at(h.files, parts[2])
	s.Name, s.Commits = parts[2], s.Commits+1
}

func (h *historyCount) commit(head string) {
	day, author, _ := strings.Cut(head, " ")
	if h.r.Commits%historySteps == 0 {
		h.job.report(h.r.Commits, h.total, day)
	}
	h.r.Commits++
	if h.r.Last == "" {
		h.r.Last = day
	}
	h.r.First = day
	s := at(h.authors, author)
	s.Name, s.Commits = author, s.Commits+1
}
