package turnstile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the Markdown files of the repository, and sources the text of all Go files, by path.
func pagesAndSources(t *testing.T) (pages, sources map[string]string) {
	t.Helper()
	pages, sources = map[string]string{}, map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, ".md") {
				pages[path] = string(text)
			} else {
				sources[path] = string(text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages, sources
}

// A page that names a test promises that there is one.
func TestDocsNameTestsThatExist(t *testing.T) {
	pages, sources := pagesAndSources(t)
	name := regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]+)`")
	seen := 0
	for page, text := range pages {
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			seen++
			found := false
			for _, source := range sources {
				found = found || strings.Contains(source, "func "+m[1]+"(")
			}
			if !found {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d names were seen: the search is broken", seen)
	}
}

// Go snippets of the pages are copied from examples and tests that are compiled, line by line.
func TestDocsSnippetsAreCompiled(t *testing.T) {
	pages, sources := pagesAndSources(t)
	lines := map[string][]string{}
	for path, text := range sources {
		if strings.HasSuffix(path, "_test.go") {
			lines[path] = trimmed(text)
		}
	}
	seen := 0
	for page, text := range pages {
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
			seen++
			want := trimmed(block[1])
			found := false
			for _, have := range lines {
				found = found || containsRun(have, want)
			}
			if !found {
				t.Errorf("%s has a snippet that no example has:\n%s", page, block[1])
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d snippets were seen: the search is broken", seen)
	}
}

// trimmed returns the lines of text without their indent, and without blank ones.
func trimmed(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func containsRun(have, want []string) bool {
	for i := range have {
		if len(want) > 0 && i+len(want) <= len(have) && slices.Equal(have[i:i+len(want)], want) {
			return true
		}
	}
	return false
}
