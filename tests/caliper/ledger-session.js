'use strict';

// A session of the unmodified fabric-gateway client with what it has besides transactions: the system chaincode
// qscc, events from a checkpoint on, blocks with private data, signing elsewhere, and calls whose time is over. It prints
// what a client sees; data/ledger-session.txt is what Fabric 2.5.16 answers.
//
//   node ledger-session.js DESCRIPTION.json CHANNEL     (network.json, as the ledger's init writes it)

const { checkpointers, hash } = require('@hyperledger/fabric-gateway');
const { common, peer } = require('@hyperledger/fabric-protos');
const { channelName, identityOf, open, say, refused, text, first, headerHash, run } = require('./client.js');

const blockOf = (bytes) => common.Block.deserializeBinary(bytes);

async function submit(contract, name, ...args) {
    const transaction = await contract.newProposal(name, { arguments: args }).endorse();
    const status = await (await transaction.submit()).getStatus();
    return { id: transaction.getTransactionId(), block: status.blockNumber };
}

function idIn(envelope) {
    const payload = common.Payload.deserializeBinary(envelope.getPayload_asU8());
    return common.ChannelHeader.deserializeBinary(payload.getHeader().getChannelHeader_asU8()).getTxId();
}

async function blocks(channel, made) {
    const qscc = channel.getContract('qscc');
    const ask = (...call) => qscc.evaluateTransaction(...call);
    const found = peer.ProcessedTransaction.deserializeBinary(await ask('GetTransactionByID', channelName, made.id));
    say('transaction', [idIn(found.getTransactionenvelope()) === made.id, found.getValidationcode()]);
    const block = blockOf(await ask('GetBlockByTxID', channelName, made.id));
    say('its block', BigInt(block.getHeader().getNumber()) === made.block);
    const byNumber = blockOf(await ask('GetBlockByNumber', channelName, String(made.block)));
    say('by number', Buffer.from(byNumber.serializeBinary()).equals(Buffer.from(block.serializeBinary())));
    const byHash = blockOf(await ask('GetBlockByHash', channelName, Buffer.from(headerHash(block.getHeader()), 'hex')));
    say('by hash', byHash.getHeader().getNumber() === block.getHeader().getNumber());
    const info = common.BlockchainInfo.deserializeBinary(await ask('GetChainInfo', channelName));
    const last = blockOf(await ask('GetBlockByNumber', channelName, String(info.getHeight() - 1)));
    say('chain', headerHash(last.getHeader()) === Buffer.from(info.getCurrentblockhash_asU8()).toString('hex'));
    const config = blockOf(await channel.getContract('cscc').evaluateTransaction('GetConfigBlock', channelName));
    say('configuration', config.getData().getDataList().length);

    await refused('no such block', () => ask('GetBlockByNumber', channelName, '999999'));
    await refused('no number', () => ask('GetBlockByNumber', channelName, 'x'));
    await refused('no such transaction', () => ask('GetTransactionByID', channelName, '0'.repeat(64)));
    await refused('another channel', () => ask('GetChainInfo', 'nowhere'));
    await refused('no such function', () => ask('Forget', channelName, '1'));
    await refused('an argument too few', () => ask('GetBlockByNumber', channelName));
    await refused('no arguments', () => ask('GetChainInfo'));
}

async function checkpoints(channel, contract) {
    const from = await submit(contract, 'initMarble', 'c1', 'red', '5', 'alice');
    await submit(contract, 'initMarble', 'c2', 'red', '5', 'alice');
    const checkpoint = checkpointers.inMemory();
    const [one] = await first(await channel.getChaincodeEvents('marbles', { startBlock: from.block, checkpoint }), 1);
    say('first event', [one.transactionId === from.id, one.eventName, text(one.payload)]);
    await checkpoint.checkpointChaincodeEvent(one);
    const [next] = await first(await channel.getChaincodeEvents('marbles', { checkpoint }), 1);
    say('after the checkpoint', [next.eventName, text(next.payload)]);

    const blocks = checkpointers.inMemory();
    await blocks.checkpointBlock(BigInt(0));
    const [second] = await first(await channel.getBlockEvents({ checkpoint: blocks }), 1);
    say('block after the checkpoint', second.getHeader().getNumber());
    const [data] = await first(await channel.getBlockAndPrivateDataEvents({ startBlock: BigInt(0) }), 1);
    say('block with private data', [data.getBlock().getHeader().getNumber(), data.getPrivateDataMapMap().getLength()]);
}

/** Everything signed elsewhere: the gateway itself has no signer. */
async function offline() {
    const { identity, signer } = identityOf('Org1MSP');
    const { gateway, channel, close } = open('Org1MSP', { identity, hash: hash.sha256 });
    const contract = channel.getContract('marbles');
    const proposal = contract.newProposal('initMarble', { arguments: ['o1', 'red', '5', 'alice'] });
    await refused('unsigned', () => proposal.endorse());
    const signedProposal = gateway.newSignedProposal(proposal.getBytes(), await signer(proposal.getDigest()));
    const transaction = await signedProposal.endorse();
    const commit = await gateway.newSignedTransaction(transaction.getBytes(), await signer(transaction.getDigest())).submit();
    const status = await gateway.newSignedCommit(commit.getBytes(), await signer(commit.getDigest())).getStatus();
    say('signed elsewhere', [status.code, status.successful]);

    const forged = contract.newProposal('readMarble', { arguments: ['o1'] });
    await refused('a signature of something else', async () =>
        gateway.newSignedProposal(forged.getBytes(), await signer(proposal.getDigest())).evaluate());
    await refused('no signature of one', async () =>
        gateway.newSignedProposal(forged.getBytes(), Buffer.from('no signature')).evaluate());
    const events = channel.newChaincodeEventsRequest('marbles', { startBlock: BigInt(0) });
    const signed = gateway.newSignedChaincodeEventsRequest(events.getBytes(), await signer(events.getDigest()));
    say('events', (await first(await signed.getEvents(), 1)).length);
    close();
}

async function late() {
    const over = () => ({ deadline: Date.now() - 1000 });
    const { channel, close } = open('Org1MSP', { ...identityOf('Org1MSP'), evaluateOptions: over, endorseOptions: over });
    const contract = channel.getContract('marbles');
    const code = async (attempt) => attempt().then(() => 'accepted', (error) => [error.constructor.name, error.code]);
    say('evaluate too late', await code(() => contract.evaluateTransaction('readMarble', 'c1')));
    say('submit too late', await code(() => contract.submitTransaction('initMarble', 'c3', 'red', '5', 'alice')));
    close();
}

run(async () => {
    const { channel, close } = open('Org1MSP');
    const contract = channel.getContract('marbles');
    await blocks(channel, await submit(contract, 'initMarble', 'b1', 'blue', '5', 'alice'));
    await checkpoints(channel, contract);
    await offline();
    await late();
    close();
});
