'use strict';

// What the three contracts share: JSON records below a key, and amounts of money.

/** Read the record at a key; undefined where there is none. */
async function find(ctx, key) {
    const stored = await ctx.stub.getState(key);
    return stored.length === 0 ? undefined : JSON.parse(stored.toString());
}

/** Read the record at a key, which must be there. */
async function get(ctx, key, what) {
    const record = await find(ctx, key);
    if (record === undefined) {
        throw new Error(`${what} does not exist`);
    }
    return record;
}

/** Refuse a key that is taken. The read also makes two creations of one key conflict. */
async function mustBeFree(ctx, key, what) {
    if (await find(ctx, key) !== undefined) {
        throw new Error(`${what} exists already`);
    }
}

async function put(ctx, key, record) {
    await ctx.stub.putState(key, Buffer.from(JSON.stringify(record)));
}

/** Read a whole, not negative number. */
function amount(text) {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) {
        throw new Error(`"${text}" is not a whole amount from 0 to ${Number.MAX_SAFE_INTEGER}`);
    }
    return value;
}

module.exports = { find, get, mustBeFree, put, amount };
