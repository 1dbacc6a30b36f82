package channelconfig

import (
	"bytes"
	"fmt"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// HasACLs reports whether the channel names policies of its own for what peers are asked. They are not used: peers go by
// Fabric's defaults.
func (b *Bundle) HasACLs() bool { return len(acls(b.Config)) > 0 }

func acls(config *commonpb.Config) []byte {
	return config.GetChannelGroup().GetGroups()[applicationGroup].GetValues()[keyACLs].GetValue()
}

// CheckACLs refuses what no peer would go by. It is for clients' updates, and no condition of what is ordered: there are
// chains in which it stands, without effect, and whoever reads them has to come to the same configuration.
func (b *Bundle) CheckACLs(next *commonpb.Config) error {
	if now, then := acls(b.Config), acls(next); len(then) > 0 && !bytes.Equal(now, then) {
		return fmt.Errorf("%w: ACLs of the application: Fabric's defaults hold, and are not changed", ErrInvalid)
	}
	return nil
}
