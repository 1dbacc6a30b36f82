package channelconfig

import (
	"bytes"
	"fmt"
)

// HasACLs reports whether the channel names policies of its own for what peers are asked. They are not used: peers go by
// Fabric's defaults.
func (b *Bundle) HasACLs() bool { return len(b.acls()) > 0 }

func (b *Bundle) acls() []byte {
	return b.Config.GetChannelGroup().GetGroups()[applicationGroup].GetValues()[keyACLs].GetValue()
}

// checkACLs refuses what no peer would go by. What a channel of Fabric's tools brings along stays.
func (b *Bundle) checkACLs(next *Bundle) error {
	if next.HasACLs() && !bytes.Equal(b.acls(), next.acls()) {
		return fmt.Errorf("%w: ACLs of the application: Fabric's defaults hold, and are not changed", ErrInvalid)
	}
	return nil
}
