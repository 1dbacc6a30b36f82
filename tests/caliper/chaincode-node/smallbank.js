'use strict';

const { Contract } = require('fabric-contract-api');
const { amount, get, mustBeFree, put } = require('./records');

const key = (id) => `account/${id}`;

function add(account, field, change) {
    const balance = account[field] + change;
    if (balance < 0) {
        throw new Error(`insufficient funds: ${-change} of ${account[field]}`);
    }
    account[field] = balance;
}

async function load(ctx, id) {
    return get(ctx, key(id), `account ${id}`);
}

async function save(ctx, account) {
    await put(ctx, key(account.CustomId), account);
}

async function change(ctx, id, field, by) {
    const account = await load(ctx, id);
    add(account, field, by);
    await save(ctx, account);
}

async function between(ctx, destinationId, sourceId, move) {
    if (destinationId === sourceId) {
        throw new Error('source and destination are the same account');
    }
    const destination = await load(ctx, destinationId);
    const source = await load(ctx, sourceId);
    move(destination, source);
    await save(ctx, source);
    await save(ctx, destination);
}

/** The banking contract of the H-Store benchmark, with the names that Caliper gives its functions. */
class SmallBank extends Contract {
    async create_account(ctx, id, name, checking, savings) {
        await mustBeFree(ctx, key(id), `account ${id}`);
        await save(ctx, {
            CustomId: id,
            CustomName: name,
            SavingsBalance: amount(savings),
            CheckingBalance: amount(checking),
        });
    }

    async deposit_checking(ctx, sum, id) {
        await change(ctx, id, 'CheckingBalance', amount(sum));
    }

    async write_check(ctx, sum, id) {
        await change(ctx, id, 'CheckingBalance', -amount(sum));
    }

    async transact_savings(ctx, sum, id) {
        await change(ctx, id, 'SavingsBalance', amount(sum));
    }

    async send_payment(ctx, sum, destinationId, sourceId) {
        const value = amount(sum);
        await between(ctx, destinationId, sourceId, (destination, source) => {
            add(source, 'CheckingBalance', -value);
            add(destination, 'CheckingBalance', value);
        });
    }

    async amalgamate(ctx, destinationId, sourceId) {
        await between(ctx, destinationId, sourceId, (destination, source) => {
            add(destination, 'CheckingBalance', source.SavingsBalance);
            source.SavingsBalance = 0;
        });
    }

    async query(ctx, id) {
        return JSON.stringify(await load(ctx, id));
    }
}

module.exports = SmallBank;
