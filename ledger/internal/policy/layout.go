package policy

import "sort"

// Layout is one sufficient set of signatures: how many distinct identities of each principal.
type Layout map[Principal]int

// maxLayouts bounds the search: a client needs a few ways to be served, not all.
const maxLayouts = 256

// Layouts lists sets of signatures that satisfy the policy, those with fewest
// signatures first. A gateway picks one whose peers are there.
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
	// ways[k] are the layouts that satisfy k of the children seen so far.
	ways := make([][]Layout, at.n+1)
	ways[0] = []Layout{{}}
	for i := range at.children {
		options := p.layouts(&at.children[i])
		for k := at.n; k > 0; k-- {
			for _, base := range ways[k-1] {
				for _, option := range options {
					if len(ways[k]) < maxLayouts {
						ways[k] = append(ways[k], merge(base, option))
					}
				}
			}
		}
	}
	return ways[at.n]
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
