// Package shim is the chaincode side of Fabric's shim protocol, for chaincodes
// that run as a service of their own: the peer dials protos.Chaincode/Connect,
// the chaincode registers, and each transaction is then a conversation on that
// one stream, told apart by channel and transaction id.
//
//	peer                        chaincode
//	  <------ REGISTER -----------          CHAINCODE_ID
//	  ------- REGISTERED, READY -->
//	  ------- TRANSACTION -------->         any number at once
//	  <------ GET_STATE ... ------          at most one open question each
//	  ------- RESPONSE | ERROR --->
//	  <------ COMPLETED -----------         the contract's response and event
//
// A contract implements Contract, most easily as Functions. As in Fabric, reads
// see the committed state alone, never the transaction's own writes.
package shim
