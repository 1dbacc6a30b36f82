package mutanttest

import "testing"

// Shared is the mutants of a package that the cores of PBFT and Zyzzyva rest on. The tests of both are to notice each.
type Shared struct {
	Mutants []Mutant
	Telling []string // as Suite.Telling
}

// Applies shows that each mutant is one of the source as it is.
func (s Shared) Applies(t *testing.T) { s.suite("").Applies(t) }

// Noticed shows that scripts or schedules of both protocols notice each mutant.
func (s Shared) Noticed(t *testing.T) {
	for _, protocol := range []string{"pbft", "zyzzyva"} {
		t.Run(protocol, s.suite("../"+protocol).Noticed)
	}
}

// suite has the tests in a protocol's folder notice the mutants.
func (s Shared) suite(folder string) Suite {
	return Suite{Mutants: s.Mutants, Telling: s.Telling, Package: folder, Test: "TestThatNotices"}
}
