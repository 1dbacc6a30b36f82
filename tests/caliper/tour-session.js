'use strict';

// A tour through what a chaincode can ask of its peer, by the unmodified fabric-gateway client: the contract `tour`
// under AND(Org1MSP.peer, Org2MSP.peer), so that two processes must come to the same result, and `kv`, which it calls.
//
//   node tour-session.js DESCRIPTION.json CHANNEL     (network.json, as the ledger's init writes it)

const { open, say, text, run } = require('./client.js');

run(async () => {
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
});
