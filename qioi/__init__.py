"""QiOi: performance isolation for permissioned ledgers."""
