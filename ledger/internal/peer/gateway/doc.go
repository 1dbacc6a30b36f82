// Package gateway is Fabric's Gateway service, which every client SDK of Fabric's
// current versions talks to: it collects endorsements from this peer and from peers of
// other organisations, hands transactions to the orderers, tells what became of them,
// and streams chaincode events. Codes, messages and details of its errors are Fabric's.
package gateway
