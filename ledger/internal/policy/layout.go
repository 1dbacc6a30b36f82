package policy

import "sort"

// Layout is one sufficient set of signatures: how many distinct identities of each principal.
type Layout map[Principal]int

// maxLayouts bounds the search: a client needs a few ways to be served, not all.
const maxLayouts = 256

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
	// ways[k] are the layouts that satisfy k of the rules seen so far.
	ways := make([][]Layout, n+1)
	ways[0] = []Layout{{}}
	for _, options := range rules {
		for k := n; k > 0; k-- {
			for _, base := range ways[k-1] {
				for _, option := range options {
					if len(ways[k]) < maxLayouts {
						ways[k] = append(ways[k], merge(base, option))
					}
				}
			}
		}
	}
	return ways[n]
}

func merge(a, b Layout) Layout {
	out := make(Layout, len(a)+len(b))
	for p, n := range a {
		out[p] = n
	}
	for p, n := range b {
		out[p] += n
	}
	return out
}
