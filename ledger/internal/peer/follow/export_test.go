package follow

// First is which of n orderers, by their addresses in order, a peer asks first.
func First(peer string, n int) int { return (&Follower{Name: peer}).firstOrderer() % n }
