package wire

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Secrets of a job are shown only to callers that may manage jobs: values of environments, which the protos mark with
// debug_redact, and credentials and signatures of URLs in any text. Names are kept, so that all callers see which
// variables are set. The coordinators cannot do this: they know the caller, but not the caller's permissions.

// hidden replaces a secret.
const hidden = "***"

// environmentField names objects in free JSON whose values are secrets.
const environmentField = "environment"

func secretField(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// unlessHidden writes values of a secret field.
func unlessHidden(value appender) appender {
	return func(b []byte, v protoreflect.Value, hide bool) []byte {
		if hide {
			return AppendString(b, hidden)
		}
		return value(b, v, hide)
	}
}

// hideCredentials replaces, in each URL of a text, the user before the host and the values of the query: names and
// passwords, signatures and tokens. A URL ends at the next space or quote.
func hideCredentials(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexAny(text, " \t\r\n\"'<>`")
		if end == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		if end < 0 {
			end = len(text)
		}
		if word := text[:end]; strings.Contains(word, "://") {
			hideInURL(&b, word)
		} else {
			b.WriteString(word)
		}
		text = text[end:]
	}
	return b.String()
}

// hideInURL writes a word that contains one or several URLs.
func hideInURL(b *strings.Builder, word string) {
	place, query, asked := strings.Cut(word, "?")
	for i, piece := range strings.Split(place, "://") {
		if i == 0 {
			b.WriteString(piece)
			continue
		}
		host := strings.IndexAny(piece, "/#")
		if host < 0 {
			host = len(piece)
		}
		b.WriteString("://")
		if user := strings.LastIndexByte(piece[:host], '@'); user >= 0 {
			b.WriteString(hidden)
			piece = piece[user:]
		}
		b.WriteString(piece)
	}
	if !asked {
		return
	}
	b.WriteByte('?')
	query, fragment, marked := strings.Cut(query, "#")
	for query != "" {
		end := strings.IndexAny(query, "&;")
		if end < 0 {
			end = len(query)
		}
		if name, _, ok := strings.Cut(query[:end], "="); ok && !strings.ContainsAny(name, ":/@#") { // otherwise it may be a URL itself
			b.WriteString(name + "=")
		}
		b.WriteString(hidden)
		if end < len(query) {
			b.WriteByte(query[end])
			end++
		}
		query = query[end:]
	}
	if marked {
		b.WriteByte('#')
		hideInURL(b, fragment)
	}
}
