// Package mutanttest shows that a protocol's scripts and random schedules would notice a mistake in its source.
//
// A mutant is the source with one mistake in it: a rule that is left out, or a condition that is wrong. It is built with
// "go test -overlay", so that the source itself stays as it is, and the test binary that comes of it runs the same scripts
// and schedules as the sound one.
package mutanttest

import (
	"fmt"
	"os"
	"strings"
)

// Mutant is a mistake by its name: what it changes in the source.
type Mutant struct {
	Name  string
	edits []edit
}

// edit is a text that stands once in a file, and what stands there instead.
type edit struct{ file, old, new string }

// New is a mutant that changes one text. The file is named from the folder of the package that declares the mutant.
func New(name, file, old, new string) Mutant {
	return Mutant{Name: name}.And(file, old, new)
}

// And has the mutant change one more text: a mistake that is made in several places.
func (m Mutant) And(file, old, new string) Mutant {
	m.edits = append(m.edits[:len(m.edits):len(m.edits)], edit{file, old, new})
	return m
}

// sources are the changed files by name. The error says which text does not stand once in its file.
func (m Mutant) sources() (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.edits {
		if _, read := files[e.file]; !read {
			text, err := os.ReadFile(e.file)
			if err != nil {
				return nil, err
			}
			files[e.file] = string(text)
		}
		if n := strings.Count(files[e.file], e.old); n != 1 || e.old == e.new {
			return nil, fmt.Errorf("%s: %s has %d times %q, which becomes %q", m.Name, e.file, n, e.old, e.new)
		}
		files[e.file] = strings.Replace(files[e.file], e.old, e.new, 1)
	}
	return files, nil
}
