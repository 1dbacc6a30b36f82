// Package identity decides who a message is from. A channel's Manager holds the
// certificate authorities of its organisations: it turns Fabric's serialized
// identities into verified ones and refuses foreign, malformed and expired
// certificates, certificates without a role, and signatures that are not the
// canonical (low-S) form of ECDSA P-256.
package identity
