'use strict';

const ContractWorkload = require('./contract-workload');

const COLORS = ['red', 'green', 'blue', 'white', 'black'];
const OWNERS = ['alice', 'bob', 'carol', 'dave', 'erin'];

/** How a marble is made, and who may own it. */
class MarblesWorkload extends ContractWorkload {
    constructor() {
        super('marbles');
    }

    async make(name) {
        return this.submit('initMarble', name, this.pick(COLORS), 1 + this.random(50), this.owner());
    }

    owner() {
        return this.pick(OWNERS);
    }

    /** Round argument: marbles (of each worker). */
    async prepareMarbles(ordinary) {
        const wanted = this.number('marbles', this.roundArguments.marbles, ordinary);
        this.marbles = await this.prepare(wanted, (name) => this.make(name));
    }
}

module.exports = MarblesWorkload;
