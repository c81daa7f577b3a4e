package wire

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A change leaves what its body does not have, and takes away what the body has as 0 or empty. A message does not tell the two
// apart, so such fields are listed in a field of their own.

// EmptiedOf returns the messages whose emptied fields a field lists; empty: it is an ordinary field, which bodies have.
func EmptiedOf(fd protoreflect.FieldDescriptor) string {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || !proto.HasExtension(options, v1.E_EmptiedOf) {
		return ""
	}
	of, _ := proto.GetExtension(options, v1.E_EmptiedOf).(string)
	return of
}

// noteEmptied lists the fields that the message of a field was given as 0 or empty. A flag that is false asks for nothing.
func (d *decoder) noteEmptied(m protoreflect.Message, s *schema, f *schemaField) {
	into := s.emptied[f.name]
	if into == nil || !m.Has(f.fd) {
		return
	}
	given := m.Get(f.fd).Message()
	for i := range given.Descriptor().Fields().Len() {
		fd := given.Descriptor().Fields().Get(i)
		if d.seen&(1<<fd.Number()) != 0 && !fd.HasPresence() && !given.Has(fd) && fd.Kind() != protoreflect.BoolKind {
			m.Mutable(into).List().Append(protoreflect.ValueOfString(string(fd.Name())))
		}
	}
}
