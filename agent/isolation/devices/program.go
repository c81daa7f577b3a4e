package devices

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rule allows a device, or all of one major number.
type rule struct {
	block        bool
	major, minor uint32
	anyMinor     bool
}

func (r rule) compare(other rule) int { return cmp.Compare(r.order(), other.order()) }

func (r rule) order() uint64 {
	n := uint64(r.major)<<32 | uint64(r.minor)
	if r.block {
		n |= 1 << 62
	}
	return n
}

// String implements fmt.Stringer.
func (r rule) String() string {
	kind, minor := "c", fmt.Sprint(r.minor)
	if r.block {
		kind = "b"
	}
	if r.anyMinor {
		minor = "*"
	}
	return fmt.Sprint(kind, r.major, ":", minor)
}

// The parts of an instruction of BPF that the filter uses: Documentation/bpf/standardization/instruction-set.rst.
const (
	opLoadWord = 0x61 // dst = *(u32 *)(src + off)
	opAnd      = 0x54 // dst &= imm, 32 bits
	opMove     = 0xb7 // dst = imm
	opIfNot    = 0x55 // if dst != imm goto +off
	opExit     = 0x95 // return r0

	result, context           = 0, 1
	kind, majorReg, minorReg  = 2, 3, 4
	blockDevice, charDevice   = 1, 2
	kindMask                  = 0xffff
	offKind, offMajor, offMin = 0, 4, 8
)

// instruction is one of the kernel's machine; see struct bpf_insn.
type instruction struct {
	op  uint8
	dst uint8
	src uint8
	off int16
	imm int32
}

// assemble makes a program that returns 1 for an access that a rule allows, and 0 for all others. The context is struct
// bpf_cgroup_dev_ctx: kind and access, major and minor.
func assemble(rules []rule) []byte {
	program := []instruction{
		{op: opLoadWord, dst: kind, src: context, off: offKind},
		{op: opAnd, dst: kind, imm: kindMask},
		{op: opLoadWord, dst: majorReg, src: context, off: offMajor},
		{op: opLoadWord, dst: minorReg, src: context, off: offMin},
	}
	for _, r := range rules {
		body := []instruction{{op: opIfNot, dst: majorReg, imm: int32(r.major)}}
		if !r.anyMinor {
			body = append(body, instruction{op: opIfNot, dst: minorReg, imm: int32(r.minor)})
		}
		of := int32(charDevice)
		if r.block {
			of = blockDevice
		}
		body = append(body, instruction{op: opIfNot, dst: kind, imm: of}, instruction{op: opMove, dst: result, imm: 1}, instruction{op: opExit})
		for i := range body {
			if body[i].op == opIfNot {
				body[i].off = int16(len(body) - i - 1)
			}
		}
		program = append(program, body...)
	}
	program = append(program, instruction{op: opMove, dst: result}, instruction{op: opExit})
	code := make([]byte, 0, 8*len(program))
	for _, i := range program {
		code = append(code, i.op, registers(i.dst, i.src))
		code = binary.NativeEndian.AppendUint16(code, uint16(i.off))
		code = binary.NativeEndian.AppendUint32(code, uint32(i.imm))
	}
	return code
}

// registers packs two registers into a byte, whose halves depend on the order of bytes of the machine.
func registers(dst, src uint8) uint8 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return dst | src<<4
	}
	return dst<<4 | src
}

// licence is that of the program; the kernel asks for it.
var licence = append([]byte("Apache-2.0"), 0)

// load gives a program to the kernel, which checks it.
func load(code []byte) (int, error) {
	attr := struct {
		kind, count       uint32
		code, licence     uint64
		logLevel, logSize uint32
		log               uint64
		version, flags    uint32
		name              [16]byte
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(code) / 8)}
	attr.code, attr.licence = address(&code[0]), address(&licence[0])
	copy(attr.name[:15], "mind_devices")
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(code)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func address(b *byte) uint64 { return uint64(uintptr(unsafe.Pointer(b))) }

// attach lets a program decide about a control group. Programs of groups above and below decide, too: each must allow an access.
func attach(group, program int) error {
	attr := struct{ target, program, kind, flags uint32 }{
		uint32(group), uint32(program), unix.BPF_CGROUP_DEVICE, unix.BPF_F_ALLOW_MULTI,
	}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_ATTACH, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)); errno != 0 {
		return errno
	}
	return nil
}
