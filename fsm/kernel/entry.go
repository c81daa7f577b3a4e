package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mindcoordinator/mind/fsm/level"
)

// A log entry is
//
//	version  1 byte: the feature level at which it was written
//	format   1 byte: entryFormat
//	time     8 bytes, big endian: the proposer's clock, Unix nanoseconds
//	count    uvarint: commands
//	count x  uvarint length, then the command: type (2 bytes, big endian), flags (1 byte), CBOR body
//
// and nothing after it. The versions look alike; a command in an entry of an older version does what it did when that
// version was the newest, so that a log that was written then comes to the same state.
const (
	entryHeaderSize = 10
	// entryFormat is that of the entries below, for all levels. Entries with 0 there are of an earlier line of levels.
	entryFormat = 1

	// MaxCommandsPerEntry bounds what Pack may be given.
	MaxCommandsPerEntry = 1 << 16
)

// Pack makes one log entry of commands that Encode made for this level, or for a lower one. It keeps their order.
func Pack(at level.Level, now time.Time, commands [][]byte) []byte {
	size := entryHeaderSize + binary.MaxVarintLen32
	for _, c := range commands {
		size += len(c) + binary.MaxVarintLen32
	}
	b := make([]byte, 0, size)
	b = append(b, byte(at), entryFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	b = binary.AppendUvarint(b, uint64(len(commands)))
	for _, c := range commands {
		b = binary.AppendUvarint(b, uint64(len(c)))
		b = append(b, c...)
	}
	return b
}

// TimeOf is the time of a log entry, in Unix nanoseconds; 0: it is too short to be one.
func TimeOf(entry []byte) int64 {
	if len(entry) < entryHeaderSize {
		return 0
	}
	return int64(binary.BigEndian.Uint64(entry[2:entryHeaderSize]))
}

// decodedEntry is an entry whose commands are known to be whole.
type decodedEntry struct {
	version  level.Level
	stamp    int64
	commands []decodedCommand
}

// decodedCommand is a command and what is known of its type; a nil command is one to skip.
type decodedCommand struct {
	command Command
	def     CommandDef
}

func (r *Registry) decodeEntry(data []byte) (decodedEntry, error) {
	var e decodedEntry
	if len(data) < entryHeaderSize {
		return e, errors.New("the entry is shorter than its header")
	}
	if data[1] != entryFormat {
		return e, fmt.Errorf("entry format %d; this version of mind reads format %d: start the version that wrote it", data[1], entryFormat)
	}
	e.version = level.Level(data[0])
	if !r.levels.Has(e.version) {
		return e, fmt.Errorf("entry version %d; this version of mind reads versions %d to %d", e.version, r.levels.Oldest, r.levels.Newest)
	}
	e.stamp = TimeOf(data)
	rest := data[entryHeaderSize:]
	count, n := binary.Uvarint(rest)
	if n <= 0 {
		return e, errors.New("the count of commands is cut off")
	}
	rest = rest[n:]
	if count > MaxCommandsPerEntry || count > uint64(len(rest)) {
		return e, fmt.Errorf("%d commands do not fit into %d bytes", count, len(rest))
	}
	e.commands = make([]decodedCommand, 0, count)
	for i := range count {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return e, fmt.Errorf("command %d is cut off", i)
		}
		c, err := r.decodeCommand(rest[n : n+int(size)])
		if err != nil {
			return e, fmt.Errorf("command %d: %w", i, err)
		}
		e.commands = append(e.commands, c)
		rest = rest[n+int(size):]
	}
	if len(rest) != 0 {
		return e, fmt.Errorf("%d bytes after the last command", len(rest))
	}
	return e, nil
}

// decodeCommand returns no command for an unknown type that may be skipped.
func (r *Registry) decodeCommand(data []byte) (decodedCommand, error) {
	if len(data) < commandHeaderSize {
		return decodedCommand{}, errors.New("shorter than a command's header")
	}
	number, flags, body := binary.BigEndian.Uint16(data), data[2], data[commandHeaderSize:]
	def, ok := r.commands[number]
	if !ok {
		if flags&flagIgnorable != 0 {
			return decodedCommand{}, nil
		}
		return decodedCommand{}, fmt.Errorf("unknown command type %d: a newer version of mind wrote it", number)
	}
	c := def.Blank()
	var err error
	if p, ok := c.(BodyParser); ok {
		err = p.ParseBody(body)
	} else {
		err = decMode.Unmarshal(body, c)
	}
	if err != nil {
		return decodedCommand{}, fmt.Errorf("decoding %s: %w", def.Name, err)
	}
	if d, ok := c.(Demanding); ok {
		if err := d.Applicable(r.levels); err != nil {
			return decodedCommand{}, fmt.Errorf("%s: %w", def.Name, err)
		}
	}
	return decodedCommand{c, def}, nil
}
