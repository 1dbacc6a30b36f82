'use strict';

const fs = require('fs');
const path = require('path');

/**
 * What Caliper's report leaves out: how latencies are distributed. Every worker counts its own
 * transactions by latency in whole milliseconds (Caliper's clock has no finer ones) and, at the end
 * of a round, adds one JSON line to a file of its own in the folder that the options name.
 *
 * Latencies are those of successful transactions; first and last are the times, in ms since the
 * epoch, when the first of all transactions was made and the last one ended.
 */
class LatencyObserver {
    constructor(options, workerIndex) {
        this.file = path.join(options.directory, `latency-${workerIndex}.jsonl`);
    }

    async activate(roundIndex, roundLabel) {
        this.round = { round: roundIndex, label: roundLabel, succeeded: 0, failed: 0, first: null, last: null, latencies: {} };
    }

    async deactivate() {
        fs.appendFileSync(this.file, `${JSON.stringify(this.round)}\n`);
    }

    txSubmitted() {}

    txFinished(results) {
        for (const result of [].concat(results)) {
            this.count(result.GetStatus() === 'success', result.GetTimeCreate(), result.GetTimeFinal());
        }
    }

    count(success, created, ended) {
        const { round } = this;
        round.first = round.first === null ? created : Math.min(round.first, created);
        round.last = round.last === null ? ended : Math.max(round.last, ended);
        if (success) {
            round.succeeded += 1;
            round.latencies[ended - created] = (round.latencies[ended - created] || 0) + 1;
        } else {
            round.failed += 1;
        }
    }
}

module.exports.createTxObserver = (options, _messenger, workerIndex) => new LatencyObserver(options, workerIndex);
