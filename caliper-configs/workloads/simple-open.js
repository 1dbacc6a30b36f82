'use strict';

const ContractWorkload = require('./contract-workload');

/** Every transaction opens an account. */
class SimpleOpen extends ContractWorkload {
    constructor() {
        super('simple');
    }

    async submitTransaction() {
        await this.submit('open', this.newName(), 10_000);
    }
}

module.exports.createWorkloadModule = () => new SimpleOpen();
