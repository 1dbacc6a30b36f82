// Package cchost is the peer's side of Fabric's chaincode shim protocol. It dials
// chaincode processes (chaincode-as-a-service, service protos.Chaincode), keeps one
// stream to each, and runs transactions over it: many at once, told apart by
// channel and transaction id.
//
// What a chaincode asks for (GET_STATE, PUT_STATE, range queries) is answered on the
// goroutine that received the question, from the transaction's Ledger. A Ledger must
// therefore answer from memory and never wait. Only chaincode-to-chaincode calls get
// a goroutine of their own.
//
// Not offered, and refused with an error to the contract: private data, history, rich
// queries, key-level endorsement, calls into other channels.
package cchost
