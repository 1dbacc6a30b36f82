'use strict';

// As much of Caliper as a workload module touches, and a ledger that accepts everything and remembers it.

exports.WorkloadModuleBase = class {
    async initializeWorkloadModule(workerIndex, totalWorkers, roundIndex, roundArguments, sutAdapter) {
        Object.assign(this, { workerIndex, totalWorkers, roundIndex, roundArguments, sutAdapter });
    }
};

exports.Ledger = class {
    constructor(status = 'success') {
        this.status = status;
        this.requests = [];
    }

    async sendRequests(request) {
        this.requests.push(request);
        return { GetStatus: () => this.status };
    }
};
