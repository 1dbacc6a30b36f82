'use strict';

const { Contract } = require('fabric-contract-api');
const { amount, get, mustBeFree, put } = require('./records');

/** Caliper's smallest contract: accounts that hold one number. */
class Simple extends Contract {
    async open(ctx, account, money) {
        await mustBeFree(ctx, account, `account ${account}`);
        await put(ctx, account, amount(money));
    }

    async query(ctx, account) {
        return JSON.stringify(await get(ctx, account, `account ${account}`));
    }

    async transfer(ctx, from, to, money) {
        const value = amount(money);
        const source = await get(ctx, from, `account ${from}`);
        const destination = await get(ctx, to, `account ${to}`);
        if (from === to) {
            throw new Error('source and destination are the same account');
        }
        if (source < value) {
            throw new Error(`insufficient funds: ${value} of ${source}`);
        }
        await put(ctx, from, source - value);
        await put(ctx, to, destination + value);
    }

    async delete(ctx, account) {
        await get(ctx, account, `account ${account}`);
        await ctx.stub.deleteState(account);
    }
}

module.exports = Simple;
