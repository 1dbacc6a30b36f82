package protoutil

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/identity"
	"github.com/qioi/qioi/ledger/internal/policy"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// ErrBlockSignature is what a refused block signature wraps.
var ErrBlockSignature = errors.New("block signature")

// MetadataSlots is the number of entries in a block's metadata.
const MetadataSlots = 5

// maxSignatures bounds the work that a block from the network can ask for.
const maxSignatures = 64

// BlockHeaderBytes is the ASN.1 form of a header: what is hashed and signed.
func BlockHeaderBytes(h *commonpb.BlockHeader) []byte {
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1Uint64(h.GetNumber())
		b.AddASN1OctetString(h.GetPreviousHash())
		b.AddASN1OctetString(h.GetDataHash())
	})
	return b.BytesOrPanic() // an integer and two strings always fit
}

// BlockHeaderHash is what the next block carries as previous_hash.
func BlockHeaderHash(h *commonpb.BlockHeader) []byte {
	sum := sha256.Sum256(BlockHeaderBytes(h))
	return sum[:]
}

// DataHash is a header's data_hash: sha256 of the transactions one after the other.
func DataHash(data [][]byte) []byte {
	d := NewDataHasher()
	for _, tx := range data {
		d.Add(tx)
	}
	return d.Sum()
}

// DataHasher computes a data_hash while the block is still growing.
type DataHasher struct{ h hash.Hash }

// NewDataHasher starts an empty block.
func NewDataHasher() *DataHasher { return &DataHasher{h: sha256.New()} }

// Add appends a transaction.
func (d *DataHasher) Add(tx []byte) { _, _ = d.h.Write(tx) } // a hash never errs

// Sum is the hash of what was added so far; more may be added after.
func (d *DataHasher) Sum() []byte { return d.h.Sum(nil) }

// Reset starts the next block.
func (d *DataHasher) Reset() { d.h.Reset() }

// RunningHash is the running hash after one transaction more. It stands for all of the order up to there. At the beginning
// of a block it is the hash of the header of the block before.
func RunningHash(before, tx []byte) []byte {
	digest := sha256.Sum256(tx)
	sum := sha256.Sum256(concat(before, digest[:]))
	return sum[:]
}

// SignBlock makes a block's metadata with one orderer's signature, as Fabric's
// orderers do: the signature covers the number of the last configuration block
// and the consenter's metadata besides the header.
func SignBlock(signer Signer, header *commonpb.BlockHeader, lastConfig uint64, consenterMetadata []byte) (*commonpb.BlockMetadata, error) {
	value, err := blockValue(lastConfig, consenterMetadata)
	if err != nil {
		return nil, err
	}
	nonce, err := NewNonce()
	if err != nil {
		return nil, err
	}
	sigHeader, err := proto.Marshal(&commonpb.SignatureHeader{Creator: signer.Serialized(), Nonce: nonce})
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(concat(value, sigHeader, BlockHeaderBytes(header)))
	if err != nil {
		return nil, fmt.Errorf("sign block %d: %w", header.Number, err)
	}
	return blockMetadata(value, lastConfig, []*commonpb.MetadataSignature{{SignatureHeader: sigHeader, Signature: signature}})
}

func blockValue(lastConfig uint64, consenterMetadata []byte) ([]byte, error) {
	return proto.Marshal(&commonpb.OrdererBlockMetadata{LastConfig: &commonpb.LastConfig{Index: lastConfig}, ConsenterMetadata: consenterMetadata})
}

// SignAsConsenter is the signature of a consenter that the configuration gives a number.
func SignAsConsenter(signer Signer, number uint32, header *commonpb.BlockHeader, lastConfig uint64, consenterMetadata []byte) (*commonpb.MetadataSignature, error) {
	value, err := blockValue(lastConfig, consenterMetadata)
	if err != nil {
		return nil, err
	}
	nonce, err := NewNonce()
	if err != nil {
		return nil, err
	}
	identifier, err := proto.Marshal(&commonpb.IdentifierHeader{Identifier: number, Nonce: nonce})
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(concat(value, identifier, BlockHeaderBytes(header)))
	return &commonpb.MetadataSignature{IdentifierHeader: identifier, Signature: signature}, err
}

// CheckConsenter verifies a signature that SignAsConsenter has made, and says whose it is.
func CheckConsenter(
	s *commonpb.MetadataSignature, header *commonpb.BlockHeader, lastConfig uint64, consenterMetadata []byte, mgr *identity.Manager, named map[uint32][]byte,
) (uint32, error) {
	var ih commonpb.IdentifierHeader
	if err := Unmarshal(s.GetIdentifierHeader(), &ih); err != nil {
		return 0, err
	}
	value, err := blockValue(lastConfig, consenterMetadata)
	if err != nil {
		return 0, err
	}
	if len(s.GetSignatureHeader()) > 0 || ih.Identifier == 0 {
		return 0, fmt.Errorf("%w: a signature without a consenter's number", ErrBlockSignature)
	}
	_, err = verifyMetadataSignature(s, value, BlockHeaderBytes(header), mgr, named)
	return ih.Identifier, err
}

// SignedBlock is the metadata of a block with these signatures.
func SignedBlock(lastConfig uint64, consenterMetadata []byte, signatures []*commonpb.MetadataSignature) (*commonpb.BlockMetadata, error) {
	value, err := blockValue(lastConfig, consenterMetadata)
	if err != nil {
		return nil, err
	}
	return blockMetadata(value, lastConfig, signatures)
}

// BlockSignatures are those that a block carries.
func BlockSignatures(metadata *commonpb.BlockMetadata) ([]*commonpb.MetadataSignature, error) {
	signed, err := signedMetadata(metadata)
	return signed.GetSignatures(), err
}

func blockMetadata(value []byte, lastConfig uint64, signatures []*commonpb.MetadataSignature) (*commonpb.BlockMetadata, error) {
	signed, err := proto.Marshal(&commonpb.Metadata{Value: value, Signatures: signatures})
	if err != nil {
		return nil, err
	}
	lastValue, err := proto.Marshal(&commonpb.LastConfig{Index: lastConfig})
	if err != nil {
		return nil, err
	}
	lastConfigSlot, err := proto.Marshal(&commonpb.Metadata{Value: lastValue})
	if err != nil {
		return nil, err
	}
	slots := make([][]byte, MetadataSlots)
	slots[commonpb.BlockMetadataIndex_SIGNATURES] = signed
	slots[commonpb.BlockMetadataIndex_LAST_CONFIG] = lastConfigSlot
	return &commonpb.BlockMetadata{Metadata: slots}, nil
}

// VerifyBlock checks that the orderers that signed the header satisfy the policy
// (BlockValidation). The time of signing is not known, so expiry is not looked at.
//
// Named are the serialized identities of the consenters that the configuration gives numbers, if it does.
func VerifyBlock(header *commonpb.BlockHeader, metadata *commonpb.BlockMetadata, mgr *identity.Manager, pol policy.Evaluator, named map[uint32][]byte) error {
	signed, err := signedMetadata(metadata)
	if err != nil {
		return fmt.Errorf("%w of block %d: %w", ErrBlockSignature, header.GetNumber(), err)
	}
	if len(signed.Signatures) > maxSignatures {
		return fmt.Errorf("%w of block %d: %d signatures, at most %d are accepted", ErrBlockSignature, header.GetNumber(), len(signed.Signatures), maxSignatures)
	}
	headerBytes := BlockHeaderBytes(header)
	var signers []*identity.Identity
	var reason error
	for _, s := range signed.Signatures {
		id, err := verifyMetadataSignature(s, signed.Value, headerBytes, mgr, named)
		if err != nil {
			reason = err
			continue
		}
		signers = append(signers, id)
	}
	if pol.Evaluate(signers) {
		return nil
	}
	if reason == nil {
		reason = errors.New("the policy asks for other signers")
	}
	return fmt.Errorf("%w of block %d: %d of %d are valid: %w", ErrBlockSignature, header.GetNumber(), len(signers), len(signed.Signatures), reason)
}

func verifyMetadataSignature(
	s *commonpb.MetadataSignature, value, headerBytes []byte, mgr *identity.Manager, named map[uint32][]byte,
) (*identity.Identity, error) {
	if len(s.GetSignatureHeader()) == 0 && len(s.GetIdentifierHeader()) > 0 {
		var ih commonpb.IdentifierHeader
		if err := Unmarshal(s.IdentifierHeader, &ih); err != nil {
			return nil, err
		}
		id, err := mgr.DeserializeUndated(named[ih.Identifier])
		if err != nil {
			return nil, fmt.Errorf("consenter %d: %w", ih.Identifier, err)
		}
		return id, id.Verify(concat(value, s.IdentifierHeader, headerBytes), s.Signature)
	}
	var sh commonpb.SignatureHeader
	if err := Unmarshal(s.GetSignatureHeader(), &sh); err != nil {
		return nil, err
	}
	id, err := mgr.DeserializeUndated(sh.Creator)
	if err != nil {
		return nil, err
	}
	return id, id.Verify(concat(value, s.SignatureHeader, headerBytes), s.Signature)
}

// OrdererMetadata reads what the orderer put under its signature.
func OrdererMetadata(metadata *commonpb.BlockMetadata) (lastConfig uint64, consenter []byte, err error) {
	signed, err := signedMetadata(metadata)
	if err != nil {
		return 0, nil, err
	}
	var value commonpb.OrdererBlockMetadata
	if err := Unmarshal(signed.Value, &value); err != nil {
		return 0, nil, err
	}
	return value.GetLastConfig().GetIndex(), value.ConsenterMetadata, nil
}

func signedMetadata(metadata *commonpb.BlockMetadata) (*commonpb.Metadata, error) {
	slots := metadata.GetMetadata()
	if len(slots) <= int(commonpb.BlockMetadataIndex_SIGNATURES) {
		return nil, errors.New("no metadata")
	}
	var signed commonpb.Metadata
	if err := Unmarshal(slots[commonpb.BlockMetadataIndex_SIGNATURES], &signed); err != nil {
		return nil, err
	}
	return &signed, nil
}

func concat(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
