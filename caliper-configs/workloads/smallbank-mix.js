'use strict';

const ContractWorkload = require('./contract-workload');

// The shares of H-Store's SmallBank, in per cent. `query` is evaluated, the others are ordered.
const SHARES = {
    amalgamate: 15,
    query: 15,
    deposit_checking: 15,
    send_payment: 25,
    transact_savings: 15,
    write_check: 15,
};

/**
 * The six operations on accounts that every worker opens for itself before the round.
 *
 * Round arguments: accounts (of each worker, default 500; fewer means more conflicts), shares
 * (operation -> share, in place of H-Store's).
 */
class SmallbankMix extends ContractWorkload {
    constructor() {
        super('smallbank');
    }

    async initializeWorkloadModule(...args) {
        await super.initializeWorkloadModule(...args);
        const { accounts, shares } = this.roundArguments;
        this.operations = Object.entries(shares || SHARES).flatMap(([name, share]) => {
            if (!Object.hasOwn(SHARES, name)) {
                throw new Error(`workload argument shares: ${name}; ${Object.keys(SHARES).join(', ')} are accepted`);
            }
            return Array(this.number(`shares.${name}`, share)).fill(name);
        });
        if (this.operations.length === 0) {
            throw new Error('workload argument shares: no operation has a share');
        }
        const wanted = this.number('accounts', accounts, 500);
        this.accounts = await this.prepare(Math.max(2, wanted), (name) =>
            this.submit('create_account', name, `customer ${name}`, 1_000_000, 1_000_000));
    }

    async submitTransaction() {
        const operation = this.pick(this.operations);
        const amount = 1 + this.random(100);
        const [account, other] = this.pickTwo(this.accounts);
        switch (operation) {
        case 'query':
            return this.evaluate('query', account);
        case 'send_payment':
            return this.submit('send_payment', amount, other, account);
        case 'amalgamate':
            return this.submit('amalgamate', other, account);
        default:
            return this.submit(operation, amount, account);
        }
    }
}

module.exports.createWorkloadModule = () => new SmallbankMix();
