'use strict';

const ContractWorkload = require('./contract-workload');

/** Reads of accounts opened before the round. Round argument: accounts (of each worker, default 100). */
class SimpleQuery extends ContractWorkload {
    constructor() {
        super('simple');
    }

    async initializeWorkloadModule(...args) {
        await super.initializeWorkloadModule(...args);
        const wanted = this.number('accounts', this.roundArguments.accounts, 100);
        this.accounts = await this.prepare(wanted, (name) => this.submit('open', name, 10_000));
    }

    async submitTransaction() {
        await this.evaluate('query', this.pick(this.accounts));
    }
}

module.exports.createWorkloadModule = () => new SimpleQuery();
