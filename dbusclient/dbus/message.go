package dbus

// Kind is the kind of a message.
type Kind byte

// The kinds of messages.
const (
	Call Kind = 1 + iota
	Reply
	Fault
	Signal
)

// Flags say what may become of a call.
type Flags byte

// The flags of a call.
const (
	// NoReplyExpected asks the other side not to answer.
	NoReplyExpected Flags = 1 << iota
	// NoAutoStart asks a bus not to start a service that is not there.
	NoAutoStart
)

// Fields of a header.
const (
	fieldPath = 1 + iota
	fieldInterface
	fieldMember
	fieldErrorName
	fieldReplySerial
	fieldDestination
	fieldSender
	fieldSignature
	fieldUnixFDs
)

const (
	// MaxMessage is how long a message may be, in bytes.
	MaxMessage = 1 << 27
	// maxArray is how long an array may be, in bytes.
	maxArray = 1 << 26
	// FixedHeader is the part of a message's header that tells its length, in
	// bytes.
	FixedHeader = 16
)

// Message is a message, to be sent or received. Empty fields are not in it.
type Message struct {
	Kind  Kind
	Flags Flags
	// Serial tells messages of one sender apart; never 0 in what is sent.
	Serial uint32
	// ReplySerial is the serial of the call that is answered.
	ReplySerial uint32
	Path        ObjectPath
	Interface   string
	Member      string
	// ErrorName is the name of an error that is answered.
	ErrorName           string
	Sender, Destination string
	// Body are the arguments.
	Body []any
}
