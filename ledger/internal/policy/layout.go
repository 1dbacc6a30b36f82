package policy

import (
	"maps"
	"sort"
)

// Layout is one sufficient set of signatures: how many distinct identities of each principal.
type Layout map[Principal]int

// Bounds of the search: a client needs a few ways to be served, not all. A choice of many principals has few layouts, since
// maxPrincipals is of all that a search keeps, but for one layout of each size.
const (
	maxLayouts    = 256
	maxPrincipals = 1 << 16
)

// Layouts lists sets of signatures that satisfy the policy, those with fewest
// signatures first. A gateway picks one whose peers are there. They are not all where the policy leaves much choice.
func (p *Policy) Layouts() []Layout {
	found := p.layouts(&p.root)
	sort.SliceStable(found, func(i, j int) bool { return found[i].size() < found[j].size() })
	return found
}

func (l Layout) size() int {
	total := 0
	for _, n := range l {
		total += n
	}
	return total
}

func (p *Policy) layouts(at *node) []Layout {
	if at.leaf >= 0 {
		return []Layout{{p.principals[at.leaf]: 1}}
	}
	options := make([][]Layout, 0, len(at.children))
	for i := range at.children {
		options = append(options, p.layouts(&at.children[i]))
	}
	return choose(at.n, options)
}

// Choose lists the ways to take n of the layouts together.
func Choose(n int, from []Layout) []Layout {
	options := make([][]Layout, 0, len(from))
	for _, l := range from {
		options = append(options, []Layout{l})
	}
	return choose(n, options)
}

// choose takes n of the rules, each in any one of its ways.
func choose(n int, rules [][]Layout) []Layout {
	// found[k] are layouts that satisfy k of the rules seen so far.
	found := make([]ways, n+1)
	found[0].add(Layout{})
	for _, options := range rules {
		for k := n; k > 0; k-- {
			found[k].extend(found[k-1].layouts, options, maxPrincipals/(n+1))
		}
	}
	return found[n].layouts
}

// ways are layouts, and how many principals they name together.
type ways struct {
	layouts    []Layout
	principals int
}

// extend adds each base with each option as long as there is room. There is for one.
func (w *ways) extend(bases, options []Layout, room int) {
	for _, base := range bases {
		for _, option := range options {
			if len(w.layouts) == maxLayouts || len(w.layouts) > 0 && w.principals+len(base)+len(option) > room {
				return
			}
			w.add(merge(base, option))
		}
	}
}

func (w *ways) add(l Layout) {
	w.layouts = append(w.layouts, l)
	w.principals += len(l)
}

func merge(a, b Layout) Layout {
	out := make(Layout, len(a)+len(b))
	maps.Copy(out, a)
	for p, n := range b {
		out[p] += n
	}
	return out
}
