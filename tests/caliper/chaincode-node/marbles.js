'use strict';

const { Contract } = require('fabric-contract-api');
const { amount, get, mustBeFree, put } = require('./records');

const INDEX = 'color~name';

/** The marbles of Fabric's samples: records with an index by colour, range and composite-key queries. */
class Marbles extends Contract {
    async initMarble(ctx, name, color, size, owner) {
        await mustBeFree(ctx, name, `marble ${name}`);
        await put(ctx, name, { docType: 'marble', name, color, size: amount(size), owner });
        await ctx.stub.putState(ctx.stub.createCompositeKey(INDEX, [color, name]), Buffer.from([0]));
        ctx.stub.setEvent('initMarble', Buffer.from(name));
    }

    async readMarble(ctx, name) {
        return JSON.stringify(await get(ctx, name, `marble ${name}`));
    }

    async transferMarble(ctx, name, owner) {
        const marble = await get(ctx, name, `marble ${name}`);
        marble.owner = owner;
        await put(ctx, name, marble);
    }

    async delete(ctx, name) {
        const marble = await get(ctx, name, `marble ${name}`);
        await ctx.stub.deleteState(name);
        await ctx.stub.deleteState(ctx.stub.createCompositeKey(INDEX, [marble.color, name]));
    }

    async getMarblesByRange(ctx, start, end) {
        const found = [];
        for await (const { key, value } of ctx.stub.getStateByRange(start, end)) {
            found.push({ Key: key, Record: JSON.parse(Buffer.from(value).toString()) });
        }
        return JSON.stringify(found);
    }

    async transferMarblesBasedOnColor(ctx, color, owner) {
        const moved = [];
        for await (const { key } of ctx.stub.getStateByPartialCompositeKey(INDEX, [color])) {
            const [, name] = ctx.stub.splitCompositeKey(key).attributes;
            await this.transferMarble(ctx, name, owner);
            moved.push(name);
        }
        return JSON.stringify(moved);
    }
}

module.exports = Marbles;
