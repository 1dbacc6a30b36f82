'use strict';

// What the sessions of the unmodified fabric-gateway client share: connections to the peers of a network that
// network.json describes, and how what a client sees is spelt with all that differs from run to run taken out.

const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const { connect, signers } = require('@hyperledger/fabric-gateway');

const [file, channelName] = process.argv.slice(2);
const network = JSON.parse(fs.readFileSync(file));
const read = (name) => fs.readFileSync(path.resolve(path.dirname(file), name));

function identityOf(mspId, claimed = mspId) {
    const user = network.clients.find((client) => client.msp_id === mspId);
    return {
        identity: { mspId: claimed, credentials: read(user.cert) },
        signer: signers.newPrivateKeySigner(crypto.createPrivateKey(read(user.key))),
    };
}

/** A gateway at the organisation's peer; `options` are connect's, in place of the organisation's client's. */
function open(mspId, options = identityOf(mspId)) {
    const peer = network.nodes.find((node) => node.role === 'peer' && node.msp_id === mspId);
    const client = new grpc.Client(peer.address, grpc.credentials.createSsl(read(network.tls_ca[mspId])));
    const gateway = connect({ client, ...options });
    return { gateway, channel: gateway.getNetwork(channelName), close: () => { gateway.close(); client.close(); } };
}

const normal = (said) => String(said)
    .replaceAll(channelName, 'CHANNEL')
    .replace(/[0-9a-f]{64}/g, 'TXID')
    .replace(/(127\.0\.0\.1|localhost|peer\d[\w.-]*):\d+/g, 'ADDRESS');

function say(step, what) {
    console.log(`${step}: ${normal(what)}`);
}

/** What a client learns of an error: its class, gRPC's code and message, and who said what behind it. */
function spell(error) {
    // Fabric asks every peer of an organisation, and sets what a remote one said behind gRPC's own words.
    const said = ({ mspId, message }) => `${mspId} says "${message.replace(/^rpc error: code = \w+ desc = /, '')}"`;
    const details = [...new Set((error.details || []).map(said))].sort();
    return [`${error.constructor.name} "${error.message}"`, ...details].join('; ');
}

async function refused(step, attempt) {
    try {
        await attempt();
        say(step, 'accepted');
    } catch (error) {
        say(step, spell(error));
    }
}

const text = (bytes) => Buffer.from(bytes).toString();

/** The first `count` items of an endless stream. */
async function first(stream, count) {
    const items = [];
    try {
        for await (const item of stream) {
            if (items.push(item) === count) break;
        }
    } finally {
        stream.close();
    }
    return items;
}

/** Fabric's block hash: SHA-256 of the ASN.1 SEQUENCE of number, previous hash and data hash. */
function headerHash(header) {
    const der = (tag, bytes) => Buffer.concat([Buffer.from([tag, bytes.length]), bytes]);
    let hex = header.getNumber().toString(16);
    hex = hex.padStart(hex.length + (hex.length % 2), '0');
    const number = Buffer.from(hex[0] >= '8' ? `00${hex}` : hex, 'hex'); // an INTEGER has a sign
    const parts = [der(2, number), der(4, Buffer.from(header.getPreviousHash())), der(4, Buffer.from(header.getDataHash()))];
    return crypto.createHash('sha256').update(der(0x30, Buffer.concat(parts))).digest('hex');
}

/** Runs a session; an event stream that is still open after a failure would keep the process. */
function run(main) {
    main().catch((error) => {
        console.error(error);
        process.exit(1);
    });
}

module.exports = { channelName, identityOf, open, say, spell, refused, text, first, headerHash, run };
