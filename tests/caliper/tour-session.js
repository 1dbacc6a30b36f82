'use strict';

// A tour through what a chaincode can ask of its peer, by the unmodified fabric-gateway client: the contract `tour`
// under AND(Org1MSP.peer, Org2MSP.peer), so that two processes must come to the same result, and `kv`, which it calls.
//
//   node tour-session.js DESCRIPTION.json CHANNEL     (network.json, as the ledger's init writes it)

const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const { connect, signers } = require('@hyperledger/fabric-gateway');

const [file, channelName] = process.argv.slice(2);
const network = JSON.parse(fs.readFileSync(file));
const read = (name) => fs.readFileSync(path.resolve(path.dirname(file), name));
const text = (bytes) => Buffer.from(bytes).toString();

function open(mspId) {
    const user = network.clients.find((client) => client.msp_id === mspId);
    const peer = network.nodes.find((node) => node.role === 'peer' && node.msp_id === mspId);
    const client = new grpc.Client(peer.address, grpc.credentials.createSsl(read(network.tls_ca[mspId])));
    const gateway = connect({
        client,
        identity: { mspId, credentials: read(user.cert) },
        signer: signers.newPrivateKeySigner(crypto.createPrivateKey(read(user.key))),
    });
    return { channel: gateway.getNetwork(channelName), close: () => { gateway.close(); client.close(); } };
}

function say(step, what) {
    console.log(`${step}: ${what}`);
}

async function main() {
    const one = open('Org1MSP');
    const contract = one.channel.getContract('tour');
    const submit = async (...call) => text(await contract.submitTransaction(...call));
    const ask = async (...call) => text(await contract.evaluateTransaction(...call));

    for (const key of ['a', 'b', 'c', 'd', 'e']) {
        await submit('put', key, key.toUpperCase());
    }
    say('get', await ask('get', 'b'));
    await submit('del', 'b');
    say('deleted', await ask('get', 'b'));
    say('range', await ask('range', 'a', 'd'));
    say('open range', await ask('range', '', ''));
    await submit('fill', '250');
    say('long range', await ask('sum'));

    say('first page', await ask('page', 'a', 'f', '2', ''));
    say('second page', await ask('page', 'a', 'f', '2', 'd'));
    say('page of all', await ask('page', 'a', 'f', '10', ''));

    for (const [color, name] of [['red', 'x'], ['blue', 'y'], ['red', 'z']]) {
        await submit('mark', color, name);
    }
    say('composite keys', await ask('marked', 'red'));
    say('composite keys, paged', await ask('markedPage', 'red', '1'));

    const secret = contract.newProposal('keepSecret', { arguments: ['s'], transientData: { secret: 'whisper' } });
    const kept = await secret.endorse();
    say('transient', text(kept.getResult()));
    say('not in the transaction', !text(kept.getBytes()).includes('whisper'));
    say('kept', (await (await kept.submit()).getStatus()).code);
    say('its hash', await ask('checkSecret', 's', 'whisper'));

    const from = (await (await contract.submitAsync('announce', { arguments: ['news', 'hello'] })).getStatus()).blockNumber;
    const events = await one.channel.getChaincodeEvents('tour', { startBlock: from });
    for await (const { eventName, payload } of events) {
        say('event', `${eventName} ${text(payload)}`);
        break;
    }
    events.close();

    say('creator', await ask('who'));
    const other = open('Org2MSP');
    say('another creator', text(await other.channel.getContract('tour').evaluateTransaction('who')));
    other.close();

    const kv = one.channel.getContract('kv');
    await submit('callPut', 'kv', 'k', 'from afar');
    say('written by another chaincode', text(await kv.evaluateTransaction('get', 'k')));
    say('not in its own state', await ask('get', 'k'));
    await kv.submitTransaction('put', 'k', 'at home');
    say('read by another chaincode', await ask('callGet', 'kv', 'k'));
    try {
        await submit('callGet', 'nothing', 'k');
        say('unknown chaincode', 'accepted');
    } catch (error) {
        say('unknown chaincode', error.constructor.name);
    }
    one.close();
}

main().catch((error) => {
    console.error(error);
    process.exit(1); // a connection that is still open would keep the process
});
