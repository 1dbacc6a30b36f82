package orderer

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/qioi/qioi/ledger/internal/orderer/consensus"
)

// kept is the first block that this orderer's own logs in a channel's folder bring again; 0: that is not certain. It is asked
// where the block file is damaged behind some frame. What is to be cut off there is in the log of the newest membership,
// whose snapshot stands for the most blocks, or came from other orderers after it.
func kept(kind *consensus.Kind, channel, dir string) (block uint64) {
	if kind.Kept == nil {
		return 0
	}
	parts, err := os.ReadDir(dir)
	for _, part := range parts {
		if name := part.Name(); err != nil || name != kind.Folder && !strings.HasPrefix(name, kind.Folder+"-") {
			continue
		}
		var first uint64
		first, err = kind.Kept(filepath.Join(dir, part.Name()))
		block = max(block, first)
	}
	if err != nil {
		log.Warnf("[channel: %s] the block file is damaged, and the log may not have all that it had: %s", channel, err)
		return 0
	}
	if block > 0 {
		log.Warnf("[channel: %s] the block file is damaged. The log has all from block [%d] on: damage there is cut off", channel, block)
	}
	return block
}
