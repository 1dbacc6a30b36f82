'use strict';

const MarblesWorkload = require('./marbles-workload');

/** Every transaction makes a marble: a record and an entry of the colour index. */
class MarblesInit extends MarblesWorkload {
    async submitTransaction() {
        await this.make(this.newName());
    }
}

module.exports.createWorkloadModule = () => new MarblesInit();
