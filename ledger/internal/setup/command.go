package setup

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Command is `qioi-ledger init`.
func Command() *cobra.Command {
	o := Defaults()
	cmd := &cobra.Command{
		Use:   "init --dir DIR",
		Short: "Make a network's folder: keys, certificates, genesis blocks, node configurations",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := Init(o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes, channels %v, %s mode, %s\n", o.Dir, len(file.Nodes), file.Channels, file.Mode, file.Consenter)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", o.Dir, "folder to make")
	f.IntVar(&o.Orgs, "orgs", o.Orgs, "organisations with peers")
	f.IntVar(&o.PeersPerOrg, "peers-per-org", o.PeersPerOrg, "peers of each organisation")
	f.IntVar(&o.Orderers, "orderers", o.Orderers, "orderers")
	f.StringArrayVar(&o.Channels, "channel", o.Channels, "channel; repeat for several")
	f.StringVar(&o.Mode, "mode", o.Mode, "stream: each transaction leaves as soon as it is ordered; block: Fabric's batches")
	f.StringVar(&o.Consenter, "consenter", o.Consenter, named(nil))
	f.IntVar(&o.Brokers, "brokers", o.Brokers, named(consenter.hasBrokers)+": brokers to place; whoever starts the network runs them (0: 3)")
	f.BoolVar(&o.SequencerMemory, "sequencer-memory", false, named(consenter.hasSequencer)+": answer before the log is on disk; a power cut loses what was answered")
	f.BoolVar(&o.VolatileVotes, "volatile-votes", false, named(consenter.hasVotes)+": votes leave before they are on disk; for measurements only, a power cut makes liars of orderers")
	f.Uint32Var(&o.MaxMessageCount, "max-message-count", o.MaxMessageCount, "block mode: transactions per block")
	f.Uint32Var(&o.PreferredMaxBytes, "preferred-max-bytes", o.PreferredMaxBytes, "size at which a block is cut")
	f.Uint32Var(&o.AbsoluteMaxBytes, "absolute-max-bytes", o.AbsoluteMaxBytes, "largest transaction that is accepted")
	f.DurationVar(&o.BatchTimeout, "batch-timeout", o.BatchTimeout, "block mode: time after which a block is cut")
	f.Uint32Var(&o.VirtualBlockTxs, "virtual-block-txs", o.VirtualBlockTxs, "stream mode: transactions under one signature")
	f.DurationVar(&o.VirtualBlockInterval, "virtual-block-interval", o.VirtualBlockInterval, "stream mode: time after which a virtual block is sealed")
	f.DurationVar(&o.RaftTick, "raft-tick", o.RaftTick, "Raft: unit of its clock")
	f.Uint32Var(&o.ElectionTicks, "election-ticks", o.ElectionTicks, "Raft: ticks without a leader before an election")
	f.Uint32Var(&o.SnapshotBytes, "snapshot-bytes", o.SnapshotBytes, "Raft: bytes of log between two snapshots")
	f.IntVar(&o.BasePort, "base-port", o.BasePort, "first of the ports, on 127.0.0.1 where --kubernetes is not given")
	f.StringVar(&o.Kubernetes, "kubernetes", o.Kubernetes, "name nodes as the pods of StatefulSets behind this headless Service: orderer-0.SERVICE, peer-org1-0.SERVICE")
	f.StringArrayVar(&o.Chaincodes, "chaincode", o.Chaincodes, "NAME or NAME=POLICY, for example kv=AND('Org1MSP.peer','Org2MSP.peer'); repeat for several")
	f.BoolVar(&o.NoTLS, "no-tls", o.NoTLS, "plain connections, unauthenticated orderers: for measurements only")
	f.BoolVar(&o.Pprof, "pprof", o.Pprof, "nodes serve /debug/pprof at their operations endpoints")
	f.IntVar(&o.Processors, "processors", o.Processors, "threads on which a node may run at once; 0: twice its part of this host's cores")
	f.BoolVar(&o.ChaincodeTLS, "chaincode-tls", false, "TLS with certificates of both sides also between a peer and its chaincodes")
	f.IntVar(&o.CheckpointInterval, "checkpoint-interval", o.CheckpointInterval, "transactions of a channel between two checkpoints of a peer: what a start after a crash replays at most (0: 50,000)")
	f.DurationVar(&o.WireGap, "wire-gap", o.WireGap, "least time between two writes of a process to a connection under load; below 0: 8ms in block mode with blocks of 50 or more, else none")
	f.BoolVar(&o.LikeFabric, "like-fabric", false, "run as Fabric's own processes do, without what saves wake-ups: every core, no pacing, Go's default collections, a log line a call")
	f.IntVar(&o.VerifyWorkers, "verify-workers", o.VerifyWorkers, "signatures of a channel that a peer checks at once (0: one a thread)")
	return cmd
}

// AddOrdererCommand is `qioi-ledger add-orderer`.
func AddOrdererCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "add-orderer --dir DIR", Short: "Make the files of one orderer more, which `config add-consenter` then lets order", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := AddOrderer(dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, configuration %s\n", node.Name, node.Address, node.Config)
			return err
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

// RenewTLSCommand is `qioi-ledger renew-tls`.
func RenewTLSCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "renew-tls --dir DIR NODE", Short: "Give a node a new TLS key and certificate, with which it starts next; an orderer needs `config rotate-consenter`, too", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return RenewTLS(dir, args[0]) },
	}
	dirFlag(cmd, &dir)
	return cmd
}

func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "folder `DIR` of the network, which init made")
	_ = cmd.MarkFlagRequired("dir") // it exists: the line above made it
}
