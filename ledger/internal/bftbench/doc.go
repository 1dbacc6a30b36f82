// Package bftbench measures the protocols that tolerate liars without a ledger around them: replicas that execute YCSB's
// writes, clients by the thousand, and a result that says where the time went. It asks the questions of "Permissioned
// Blockchain Through the Looking Glass" (ResilientDB, ICDCS 2020); docs/resilientdb.md has the answers.
package bftbench
