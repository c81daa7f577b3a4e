package tunnels

import v1 "github.com/mindcoordinator/mind/api/scaimind/v1"

// maxKept limits the output that the client has not acknowledged. Beyond it, nothing more is read of the process.
const maxKept = 1 << 20

// maxPiece limits the bytes of one message.
const maxPiece = 64 << 10

// output holds the bytes of a channel until the client has them. Its tunnel guards it.
type output struct {
	channel v1.TunnelChannel_Value
	// data begins at the offset start.
	start uint64
	data  []byte
	eof   bool
}

func (o *output) room() int { return maxKept - len(o.data) }

func (o *output) end() uint64 { return o.start + uint64(len(o.data)) }

// received drops what the client has.
func (o *output) received(upTo uint64) {
	if upTo <= o.start {
		return
	}
	upTo = min(upTo, o.end())
	o.data = o.data[upTo-o.start:]
	o.start = upTo
	if len(o.data) == 0 {
		o.data = nil // a large buffer is not kept for a tunnel that is idle
	}
}

// after returns the next piece after an offset; nil: there is none.
func (o *output) after(at uint64, toldEOF bool) *v1.TunnelBytes {
	at = max(at, o.start)
	rest := o.data[at-o.start:]
	whole := len(rest) <= maxPiece
	if !whole {
		rest = rest[:maxPiece]
	}
	eof := o.eof && whole
	if len(rest) == 0 && (!eof || toldEOF) {
		return nil
	}
	return &v1.TunnelBytes{Channel: o.channel, Offset: at, Data: append([]byte(nil), rest...), Eof: eof}
}
