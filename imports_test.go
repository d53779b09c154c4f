package turnstile_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// allowed says what the packages in a folder may import beyond the standard library, tests apart. The longest
// matching folder counts. Imports point one way: x/sync <- throttle <- adapters <- commands; fake imports none of ours.
//
// An entry stands for the packages below it too.
var allowed = map[string][]string{
	".":             {},
	"throttle":      {"golang.org/x/sync/semaphore"},
	"fake":          {},
	"pool":          {core},
	"adapt":         {core},
	"policy":        {core, "github.com/goccy/go-yaml"},
	"throttlehttp":  {core, "github.com/dunglas/httpsfv"},
	"throttleredis": {core, "github.com/redis/go-redis/v9"},
	"examples":      {"*"},
	"bench":         {"*"},
	"cmd/turnstile": {"*"},
}

const core = "github.com/turnstile-go/turnstile/throttle"

// forbidden are packages that may reach nobody's binary: testing would register its flags there.
var forbidden = map[string]bool{"testing": true}

func TestImportsPointOneWay(t *testing.T) {
	fset := token.NewFileSet()
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := folderOf(filepath.ToSlash(filepath.Dir(path)))
		for _, imp := range f.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if !mayImport(folder, name) {
				t.Errorf("%s imports %s: package folder %q may import only %v beyond the standard library",
					path, name, folder, allowed[folder])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("only %d source files were seen: the walk is broken", files)
	}
}

// folderOf returns the key of allowed that covers a folder.
func folderOf(dir string) string {
	for dir != "." {
		if _, ok := allowed[dir]; ok {
			return dir
		}
		parent := filepath.ToSlash(filepath.Dir(dir))
		dir = parent
	}
	return "."
}

func mayImport(folder, name string) bool {
	list := allowed[folder]
	if len(list) == 1 && list[0] == "*" {
		return true
	}
	if forbidden[name] {
		return false
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	for _, ok := range list {
		if ok == name || strings.HasPrefix(name, ok+"/") {
			return true
		}
	}
	return false
}

func TestTheImportRuleCatchesANewArrow(t *testing.T) {
	for _, c := range []struct {
		folder, name string
		want         bool
	}{
		{"throttle", "golang.org/x/sync/semaphore", true},
		{"throttle", "golang.org/x/time/rate", false},
		{"throttle", "github.com/turnstile-go/turnstile/fake", false},
		{"fake", "github.com/turnstile-go/turnstile/throttle", false},
		{"fake", "testing", false},
		{"throttlehttp", "github.com/turnstile-go/turnstile/throttleredis", false},
		{"throttleredis", "github.com/redis/go-redis/v9/internal", true},
		{"fake", "context", true},
	} {
		if got := mayImport(folderOf(c.folder), c.name); got != c.want {
			t.Errorf("mayImport(%q, %q) = %v, want %v", c.folder, c.name, got, c.want)
		}
	}
}
