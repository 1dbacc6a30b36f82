'use strict';

const MarblesWorkload = require('./marbles-workload');

/** Reads of marbles made before the round. Round argument: marbles (of each worker, default 100). */
class MarblesRead extends MarblesWorkload {
    async initializeWorkloadModule(...args) {
        await super.initializeWorkloadModule(...args);
        await this.prepareMarbles(100);
    }

    async submitTransaction() {
        await this.evaluate('readMarble', this.pick(this.marbles));
    }
}

module.exports.createWorkloadModule = () => new MarblesRead();
