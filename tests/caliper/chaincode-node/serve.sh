#!/bin/sh
# Serve the contract named by CONTRACT. Fabric's own variables say where and as what; NODE_PATH, or a
# node_modules folder here, holds fabric-shim.
here=$(cd "$(dirname "$0")" && pwd)
shim=$(cd "$here" && node -p 'require.resolve("fabric-shim/cli.js")') || exit 1
set -- ${CHAINCODE_TLS_CERT:+--chaincode-tls-cert-file "$CHAINCODE_TLS_CERT" --chaincode-tls-key-file "$CHAINCODE_TLS_KEY" --chaincode-tls-client-cacert-file "$CHAINCODE_CLIENT_CA_CERT"}
exec node "$shim" server --module-path "$here" \
  --chaincode-address "${CHAINCODE_SERVER_ADDRESS:?host:port to listen on}" \
  --chaincode-id "${CHAINCODE_ID:?id of the installed package}" "$@"
