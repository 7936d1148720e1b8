package outside_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page names every code that the code knows.
func TestDocumentationIsComplete(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/temporal-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range []string{"failure.go", "../../activity/observe.go", "../../workflow/observe.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Code\w+ += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
			if found++; !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("the page does not name %s", m[1])
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d codes were found", found)
	}
}
