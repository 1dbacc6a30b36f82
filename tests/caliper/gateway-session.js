'use strict';

// A session of the unmodified fabric-gateway client with a network that runs the marbles contract under the
// policy AND(Org1MSP.peer, Org2MSP.peer) on a channel of its own. It prints what a client sees, with all that
// differs from run to run (ids, addresses) taken out; data/gateway-session.txt is what Fabric 2.5.16 answers.
//
//   node gateway-session.js DESCRIPTION.json CHANNEL     (network.json, as the ledger's init writes it)

const crypto = require('crypto');
const { identityOf, open, say, refused, text, first, headerHash, run } = require('./client.js');

async function results(contract) {
    const marbles = [['m1', 'blue'], ['m2', 'red'], ['m3', 'blue'], ['m4', 'green']];
    for (const [name, color] of marbles) {
        await contract.submitTransaction('initMarble', name, color, '5', 'alice');
    }
    say('read', text(await contract.evaluateTransaction('readMarble', 'm1')));
    say('range', text(await contract.evaluateTransaction('getMarblesByRange', 'm1', 'm3')));
    say('composite keys', text(await contract.submitTransaction('transferMarblesBasedOnColor', 'blue', 'zoe')));
    say('after it', text(await contract.evaluateTransaction('readMarble', 'm3')));
    await contract.submitTransaction('delete', 'm4');
    await refused('deleted', () => contract.evaluateTransaction('readMarble', 'm4'));
}

async function errors(channel, contract) {
    await refused('submit what the contract refuses', () => contract.submitTransaction('initMarble', 'm1', 'red', '1', 'bob'));
    await refused('evaluate what the contract refuses', () => contract.evaluateTransaction('readMarble', 'm9'));
    await refused('unknown chaincode', () => channel.getContract('nothing').submitTransaction('f'));
    await refused('evaluate unknown chaincode', () => channel.getContract('nothing').evaluateTransaction('f'));
}

async function wrongChannel(gateway) {
    const contract = gateway.getNetwork('nowhere').getContract('marbles');
    await refused('unknown channel', () => contract.submitTransaction('f'));
    await refused('evaluate on unknown channel', () => contract.evaluateTransaction('f'));
}

async function wrongIdentity() {
    const foreign = open('Org1MSP', identityOf('Org1MSP', 'Org2MSP'));
    const contract = foreign.channel.getContract('marbles');
    await refused('certificate of another organisation', () => contract.evaluateTransaction('readMarble', 'm1'));
    await refused('submit with it', () => contract.submitTransaction('transferMarble', 'm1', 'eve'));
    foreign.close();
}

const endorse = (contract, name, ...args) => contract.newProposal(name, { arguments: args }).endorse();
const status = async (transaction) => (await (await transaction.submit()).getStatus()).code;

async function codes(contract) {
    const [one, other] = [await endorse(contract, 'transferMarble', 'm1', 'bob'), await endorse(contract, 'transferMarble', 'm1', 'eve')];
    say('two updates of one version', [await status(one), await status(other)]);

    const scan = await endorse(contract, 'transferMarblesBasedOnColor', 'red', 'dave');
    await contract.submitTransaction('initMarble', 'm5', 'red', '5', 'alice');
    say('a range that has grown', await status(scan));

    const single = contract.newProposal('transferMarble', { arguments: ['m2', 'bob'], endorsingOrganizations: ['Org1MSP'] });
    say('one endorsement of two', await status(await single.endorse()));

    const twice = await endorse(contract, 'transferMarble', 'm2', 'carol');
    say('submitted twice', [await status(twice), await status(twice)]);
    say('who has it', JSON.parse(text(await contract.evaluateTransaction('readMarble', 'm2'))).owner);
}

async function events(channel) {
    const seen = await first(await channel.getChaincodeEvents('marbles', { startBlock: BigInt(0) }), 5);
    say('events', seen.map(({ chaincodeName, eventName, payload }) => `${chaincodeName} ${eventName} ${text(payload)}`).join(', '));
}

/** The first `count` blocks of the channel; transactions go on until there are that many, however few a block may hold. */
async function firstBlocks(channel, contract, count) {
    let enough = false;
    const reading = first(await channel.getBlockEvents({ startBlock: BigInt(0) }), count).finally(() => { enough = true; });
    // A marble of its own each time: of one that has just changed, two peers may know different versions.
    for (let i = 0; !enough; i++) {
        await contract.submitTransaction('initMarble', `n${i}`, 'grey', '5', 'alice');
    }
    return reading;
}

async function blocks(channel, contract) {
    const chain = await firstBlocks(channel, contract, 4);
    say('block numbers', chain.map((block) => block.getHeader().getNumber()));
    say('linked', chain.slice(1).every((block, i) =>
        Buffer.from(block.getHeader().getPreviousHash()).toString('hex') === headerHash(chain[i].getHeader())));
    say('data hashes', chain.every((block) => {
        const hash = crypto.createHash('sha256');
        block.getData().getDataList().forEach((envelope) => hash.update(envelope));
        return hash.digest().equals(Buffer.from(block.getHeader().getDataHash()));
    }));
    const filtered = await first(await channel.getFilteredBlockEvents({ startBlock: BigInt(0) }), 1);
    say('filtered', filtered.map((block) => `${block.getChannelId()} ${block.getNumber()}`));
}

run(async () => {
    const { gateway, channel, close } = open('Org1MSP');
    const contract = channel.getContract('marbles');
    await results(contract);
    await errors(channel, contract);
    await wrongChannel(gateway);
    await wrongIdentity();
    await codes(contract);
    await events(channel);
    await blocks(channel, contract);
    close();
});
