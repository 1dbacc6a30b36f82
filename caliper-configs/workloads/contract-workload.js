'use strict';

const { WorkloadModuleBase } = require('@hyperledger/caliper-core');

// Transactions in flight while a round is being prepared, of all workers together. They may all use one peer, and Fabric's
// gateway takes 500 at a time from all clients.
const PREPARE_IN_FLIGHT = 400;

/**
 * What all workloads here share: names that no other run has used, a random number generator that
 * gives the same choices in every run, and preparation that fails loudly.
 *
 * Round arguments:
 *   contractId      the contract as the network file names it (default: the workload's own)
 *   invokerMspIds   organisations whose first peer and first identity the workers take in turn
 *                   (default: the network file's first organisation; `qioi lab caliper` names all)
 *   seed            of the choices (default: 1)
 */
class ContractWorkload extends WorkloadModuleBase {
    constructor(contractId) {
        super();
        this.contractId = contractId;
    }

    async initializeWorkloadModule(workerIndex, totalWorkers, roundIndex, roundArguments, sutAdapter, sutContext) {
        await super.initializeWorkloadModule(workerIndex, totalWorkers, roundIndex, roundArguments || {}, sutAdapter, sutContext);
        const { contractId, invokerMspIds, seed } = this.roundArguments;
        this.contractId = contractId || this.contractId;
        this.invokerMspId = invokerMspIds && invokerMspIds[workerIndex % invokerMspIds.length];
        this.randomState = (this.number('seed', seed, 1) * 1000 + roundIndex * 100 + workerIndex) >>> 0;
        this.names = `${Date.now().toString(36)}-${roundIndex}-${workerIndex}`;
        this.count = 0;
    }

    /** A round argument that must be a positive whole number. */
    number(name, value, ordinary) {
        const chosen = value === undefined ? ordinary : value;
        if (!Number.isSafeInteger(chosen) || chosen < 1) {
            throw new Error(`workload argument ${name}: ${JSON.stringify(chosen)}; a whole number from 1 is accepted`);
        }
        return chosen;
    }

    /** A name that is new to the ledger, whatever ran on it before. */
    newName() {
        this.count += 1;
        return `${this.names}-${this.count}`;
    }

    /** A whole number from 0 to limit - 1 (the generator mulberry32). */
    random(limit) {
        this.randomState = (this.randomState + 0x6d2b79f5) >>> 0;
        let mixed = this.randomState;
        mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
        mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
        return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
    }

    /** One of a list. */
    pick(list) {
        return list[this.random(list.length)];
    }

    /** Two different ones of a list. */
    pickTwo(list) {
        const first = this.random(list.length);
        const second = (first + 1 + this.random(list.length - 1)) % list.length;
        return [list[first], list[second]];
    }

    /** Order a transaction and wait for its commit. */
    async submit(contractFunction, ...contractArguments) {
        return this.call(contractFunction, contractArguments, false);
    }

    /** Ask one peer; nothing is ordered. */
    async evaluate(contractFunction, ...contractArguments) {
        return this.call(contractFunction, contractArguments, true);
    }

    async call(contractFunction, contractArguments, readOnly) {
        return this.sutAdapter.sendRequests({
            contractId: this.contractId,
            contractFunction,
            contractArguments: contractArguments.map(String),
            invokerMspId: this.invokerMspId,
            readOnly,
        });
    }

    /** Before the round: make records, `create(name)` each, and return their names. */
    async prepare(count, create) {
        const inFlight = Math.max(1, Math.floor(PREPARE_IN_FLIGHT / this.totalWorkers));
        const made = [];
        while (made.length < count) {
            const batch = Array.from({ length: Math.min(inFlight, count - made.length) }, () => this.newName());
            const outcomes = await Promise.all(batch.map(create));
            const failed = outcomes.filter((outcome) => outcome.GetStatus() !== 'success').length;
            if (failed > 0) {
                throw new Error(`${failed} of ${batch.length} records could not be made in ${this.contractId}`);
            }
            made.push(...batch);
        }
        return made;
    }
}

module.exports = ContractWorkload;
