package channelconfig

import (
	"fmt"

	"github.com/qioi/qioi/ledger/pb/commonpb"
)

// CheckOrganisations refuses what Fabric refuses of a running channel: that its applications' or its orderers' part goes,
// or that an organisation's MSP gets another id under the same group, by which policies would mean somebody else. Like
// CheckACLs it is for clients' updates alone.
func (b *Bundle) CheckOrganisations(next *commonpb.Config) error {
	for _, part := range []string{applicationGroup, ordererGroup} {
		now, then := b.Config.GetChannelGroup().GetGroups()[part], next.GetChannelGroup().GetGroups()[part]
		if now != nil && then == nil {
			return fmt.Errorf("%w: %s/%s: a channel that has this group keeps it", ErrInvalid, rootPath, part)
		}
		for _, name := range sortedGroups(then) {
			if now.GetGroups()[name] == nil {
				continue
			}
			_, old, err := mspOf(now.Groups[name])
			if err != nil {
				return err
			}
			_, msp, err := mspOf(then.Groups[name])
			if err != nil {
				return err
			}
			if msp.Name != old.Name {
				return fmt.Errorf("%w: %s/%s/%s: its MSP id %q stays as it is, %q is another organisation", ErrInvalid, rootPath, part, name, old.Name, msp.Name)
			}
		}
	}
	return nil
}
