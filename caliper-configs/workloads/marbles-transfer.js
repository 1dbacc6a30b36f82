'use strict';

const MarblesWorkload = require('./marbles-workload');

/** Changes of owner. Round argument: marbles (of each worker, default 500; fewer means more conflicts). */
class MarblesTransfer extends MarblesWorkload {
    async initializeWorkloadModule(...args) {
        await super.initializeWorkloadModule(...args);
        await this.prepareMarbles(500);
    }

    async submitTransaction() {
        await this.submit('transferMarble', this.pick(this.marbles), this.owner());
    }
}

module.exports.createWorkloadModule = () => new MarblesTransfer();
