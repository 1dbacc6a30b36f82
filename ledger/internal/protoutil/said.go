package protoutil

// MostSaid is how many messages an orderer and a client of its protocol tell each other at once (streampb.Said).
const MostSaid = 64
