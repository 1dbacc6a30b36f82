package consensus

// Attended is a consenter whose clients find out themselves what is decided, from what each member tells them.
type Attended interface {
	// Attend connects a client, until it leaves. Nil: the protocol's clients believe the members' answers.
	Attend() *Attendance
}

// Attendance is a client's connection to a consenter.
type Attendance struct {
	// Told is what the consenter tells the client. It is closed when the client takes it too slowly.
	Told <-chan Told
	// Hear takes a message of the client's. An error is a gRPC status, and ends the connection. When too many messages wait
	// one is lost.
	Hear func(message []byte) error
	// Leave ends the connection. It is called once.
	Leave func()
}

// Told is a message for a client, or the members that order from now on.
type Told struct {
	Message []byte
	Epoch   uint64
	Members []uint64 // ascending; nil: it is a message
}
