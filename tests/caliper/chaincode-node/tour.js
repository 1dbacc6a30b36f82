'use strict';

const crypto = require('crypto');
const { Contract } = require('fabric-contract-api');

const INDEX = 'color~name';
const text = (bytes) => Buffer.from(bytes).toString();

async function all(results) {
    const found = [];
    for await (const entry of results) {
        found.push(entry);
    }
    return found;
}

/** A page, as both languages write it: keys, their count, and where the next page begins. */
async function page({ iterator, metadata }, name) {
    const found = [];
    for (let step = await iterator.next(); ; step = await iterator.next()) {
        if (step.value) found.push(name(step.value.key));
        if (step.done) break;
    }
    await iterator.close();
    return [found.join(' '), metadata.fetchedRecordsCount, metadata.bookmark && name(metadata.bookmark)].join('; ');
}

/** One function for each thing that the shim can ask of a peer. */
class Tour extends Contract {
    async put(ctx, key, value) {
        await ctx.stub.putState(key, Buffer.from(value));
    }

    async get(ctx, key) {
        return text(await ctx.stub.getState(key));
    }

    async del(ctx, key) {
        await ctx.stub.deleteState(key);
    }

    async fill(ctx, count) {
        for (let i = 0; i < Number(count); i++) {
            await ctx.stub.putState(`n${String(i).padStart(4, '0')}`, Buffer.from(String(i)));
        }
    }

    /** More than fits into one answer of the peer: the sum shows that none is missing or twice. */
    async sum(ctx) {
        const numbers = (await all(ctx.stub.getStateByRange('n', 'o'))).map(({ value }) => Number(text(value)));
        return `${numbers.length} of sum ${numbers.reduce((a, b) => a + b, 0)}`;
    }

    async range(ctx, start, end) {
        return (await all(ctx.stub.getStateByRange(start, end))).map(({ key, value }) => `${key}=${text(value)}`).join(' ');
    }

    async page(ctx, start, end, size, bookmark) {
        return page(await ctx.stub.getStateByRangeWithPagination(start, end, Number(size), bookmark), (key) => key);
    }

    async mark(ctx, color, name) {
        await ctx.stub.putState(ctx.stub.createCompositeKey(INDEX, [color, name]), Buffer.from([0]));
    }

    async marked(ctx, color) {
        const found = await all(ctx.stub.getStateByPartialCompositeKey(INDEX, [color]));
        return found.map(({ key }) => ctx.stub.splitCompositeKey(key).attributes.join('/')).join(' ');
    }

    async markedPage(ctx, color, size) {
        const found = await ctx.stub.getStateByPartialCompositeKeyWithPagination(INDEX, [color], Number(size), '');
        return page(found, (key) => ctx.stub.splitCompositeKey(key).attributes.join('/'));
    }

    /** The value does not come with the arguments, so it is not in the transaction. */
    async keepSecret(ctx, key) {
        const secret = ctx.stub.getTransient().get('secret');
        await ctx.stub.putState(key, crypto.createHash('sha256').update(secret).digest());
        return String(secret.length);
    }

    async checkSecret(ctx, key, secret) {
        const kept = Buffer.from(await ctx.stub.getState(key));
        return String(kept.equals(crypto.createHash('sha256').update(secret).digest()));
    }

    async announce(ctx, name, payload) {
        ctx.stub.setEvent(name, Buffer.from(payload));
    }

    async who(ctx) {
        const certificate = new crypto.X509Certificate(ctx.clientIdentity.getIDBytes());
        return `${ctx.clientIdentity.getMSPID()} ${/CN=(\S+)/.exec(certificate.subject)[1]}`;
    }

    async callPut(ctx, chaincode, key, value) {
        await this.call(ctx, chaincode, 'put', key, value);
    }

    async callGet(ctx, chaincode, key) {
        return this.call(ctx, chaincode, 'get', key);
    }

    async call(ctx, chaincode, ...args) {
        const { status, message, payload } = await ctx.stub.invokeChaincode(chaincode, args, ctx.stub.getChannelID());
        if (status !== 200) {
            throw new Error(`${chaincode} answers ${status}: ${message}`);
        }
        return text(payload);
    }
}

module.exports = Tour;
