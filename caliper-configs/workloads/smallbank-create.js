'use strict';

const ContractWorkload = require('./contract-workload');

/** Every transaction opens an account: one read and one write of a key of its own, so nothing conflicts. */
class SmallbankCreate extends ContractWorkload {
    constructor() {
        super('smallbank');
    }

    async submitTransaction() {
        const name = this.newName();
        await this.submit('create_account', name, `customer ${name}`, 10_000, 10_000);
    }
}

module.exports.createWorkloadModule = () => new SmallbankCreate();
