'use strict';

const ContractWorkload = require('./contract-workload');

/** Payments between accounts opened before the round. Round argument: accounts (of each worker, default 500). */
class SimpleTransfer extends ContractWorkload {
    constructor() {
        super('simple');
    }

    async initializeWorkloadModule(...args) {
        await super.initializeWorkloadModule(...args);
        const wanted = this.number('accounts', this.roundArguments.accounts, 500);
        this.accounts = await this.prepare(Math.max(2, wanted), (name) => this.submit('open', name, 1_000_000));
    }

    async submitTransaction() {
        const [from, to] = this.pickTwo(this.accounts);
        await this.submit('transfer', from, to, 1 + this.random(100));
    }
}

module.exports.createWorkloadModule = () => new SimpleTransfer();
