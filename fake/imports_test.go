package fake

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

func TestTheStandardLibraryAloneIsImportedAndNotTesting(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		read++
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if strings.Contains(path, ".") || path == "testing" || strings.HasPrefix(path, "testing/") {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
	if read == 0 {
		t.Error("no files read")
	}
}
