// Package channelconfig is a channel's configuration: Fabric's tree of groups,
// values and policies as it stands in a configuration block, and its decoded,
// checked and immutable view, the Bundle.
package channelconfig

// Names of groups, values and policies in the tree. They are Fabric's, but for
// the last two.
const (
	ordererGroup     = "Orderer"
	applicationGroup = "Application"

	keyHashing        = "HashingAlgorithm"
	keyDataHashing    = "BlockDataHashingStructure"
	keyCapabilities   = "Capabilities"
	keyMSP            = "MSP"
	keyEndpoints      = "Endpoints"
	keyAnchorPeers    = "AnchorPeers"
	keyACLs           = "ACLs"
	keyConsensusType  = "ConsensusType"
	keyKafkaBrokers   = "KafkaBrokers"
	keyOrderers       = "Orderers"
	keyBatchSize      = "BatchSize"
	keyBatchTimeout   = "BatchTimeout"
	keyMode           = "QioiMode"
	keyChaincodes     = "Chaincodes"
	policyReaders     = "Readers"
	policyWriters     = "Writers"
	policyAdmins      = "Admins"
	policyEndorsement = "Endorsement"
	policyBlocks      = "BlockValidation"

	capability    = "V2_0"
	bftCapability = "V3_0" // from this version on Fabric's nodes read identifier headers
)

// Paths of the policies that nodes ask for.
const (
	ChannelReaders     = "/Channel/Readers"
	ApplicationReaders = "/Channel/Application/Readers"
	ApplicationWriters = "/Channel/Application/Writers"
	ChannelWriters     = "/Channel/Writers"
	ChannelAdmins      = "/Channel/Admins"
	BlockValidation    = "/Channel/Orderer/BlockValidation"
	ordererWriters     = "/Channel/Orderer/Writers"
	Endorsement        = "/Channel/Application/Endorsement"
)

// Mode says how transactions leave the orderer.
type Mode int

// In Block mode they leave by whole blocks, in Stream mode one by one.
const (
	Block Mode = iota
	Stream
)

func (m Mode) String() string {
	if m == Stream {
		return "stream"
	}
	return "block"
}
