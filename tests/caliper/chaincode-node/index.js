'use strict';

// One process serves one chaincode, so its functions are called by their plain names: only the first
// contract of a package has that right in Fabric's Node shim. CONTRACT says which one this process is.

const contracts = {
    smallbank: require('./smallbank'),
    simple: require('./simple'),
    marbles: require('./marbles'),
    tour: require('./tour'),
};

const name = process.env.CONTRACT || 'smallbank';
if (!Object.hasOwn(contracts, name)) {
    throw new Error(`CONTRACT=${name}: ${Object.keys(contracts).join(', ')} are accepted`);
}

exports.contracts = [contracts[name]];
