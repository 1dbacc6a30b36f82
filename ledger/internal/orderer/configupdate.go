package orderer

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/qioi/qioi/ledger/internal/channelconfig"
	"github.com/qioi/qioi/ledger/internal/protoutil"
	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// configTransaction turns a client's configuration update into the transaction that is
// ordered. Every orderer and peer checks it again where it stands in the order: of two that
// were made from the same configuration the first one counts.
func (ch *channel) configTransaction(bundle *channelconfig.Bundle, update *protoutil.Message) (*commonpb.Envelope, []byte, error) {
	config, err := bundle.Updated(update, time.Now())
	if err != nil {
		return nil, nil, err
	}
	if err := bundle.CheckACLs(config); err != nil {
		return nil, nil, err
	}
	if err := bundle.CheckModPolicies(config); err != nil {
		return nil, nil, err
	}
	if err := bundle.CheckOrganisations(config); err != nil {
		return nil, nil, err
	}
	if ch.part() == nil {
		return nil, nil, errNotConsenter // a consenter can say whether it could seal what follows
	}
	if err := bundle.CheckSealers(config, ch.signer.Serialized()); err != nil {
		return nil, nil, err
	}
	env, err := channelconfig.NewConfigTransaction(config, update.Envelope, ch.name, ch.signer)
	if err != nil {
		return nil, nil, err
	}
	raw, err := proto.Marshal(env)
	if err != nil {
		return nil, nil, err
	}
	return env, raw, checkSize(bundle, env, raw)
}
