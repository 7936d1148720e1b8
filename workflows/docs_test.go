package workflows_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every test that docs/guarantees.md names exists in the package that it names.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guarantees.md")
	require.NoError(t, err)
	rows, named := 0, 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		rows++
		require.Len(t, cells, 3, line)
		for _, group := range strings.Split(cells[2], "; ") {
			m := regexp.MustCompile("^`([\\w/]+)` ((?:Test|Fuzz)\\w+(?:, (?:Test|Fuzz)\\w+)*)$").FindStringSubmatch(group)
			require.NotNil(t, m, "%q is not a package and its tests", group)
			source := sourceOf(t, filepath.Join("..", m[1]))
			for _, name := range strings.Split(m[2], ", ") {
				named++
				if !strings.Contains(source, "func "+name+"(") {
					t.Errorf("%s has no %s", m[1], name)
				}
			}
		}
	}
	require.Greater(t, rows, 20)
	require.Greater(t, named, 50)
}

func sourceOf(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, dir)
	var all strings.Builder
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		all.Write(b)
	}
	return all.String()
}

// Links between the pages lead somewhere.
func TestPagesLinkToPagesThatExist(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"concepts.md", "guarantees.md", "wire.md"} {
		page, err := os.ReadFile(filepath.Join("../docs", name))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(page), -1) {
			require.FileExists(t, filepath.Join("../docs", m[1]), name)
		}
		for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(page), -1) {
			require.Contains(t, anchors(string(page)), m[1], name)
		}
	}
}

func anchors(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		out = append(out, strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	return out
}
