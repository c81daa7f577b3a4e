package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
)

// A field that holds variables of a process must be marked in its proto.
func TestSecrets_environmentsAreMarked(t *testing.T) {
	marked := 0
	var walk func(protoreflect.MessageDescriptors)
	walk = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			fields := messages.Get(i).Fields()
			for j := range fields.Len() {
				if f := fields.Get(j); strings.Contains(string(f.Name()), "environment") || f.IsMap() && strings.Contains(string(f.Name()), "env") {
					require.True(t, secretField(f), f.FullName())
					marked++
				}
			}
			walk(messages.Get(i).Messages())
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		v1.File_scaimind_v1_configs_proto, v1.File_scaimind_v1_jobs_proto, v1.File_scaimind_v1_evaluations_proto, v1.File_scaimind_v1_launchers_proto,
		v1.File_scaimind_v1_data_proto, v1.File_scaimind_v1_events_proto, v1.File_scaimind_v1_cluster_proto,
	} {
		walk(file.Messages())
	}
	require.Equal(t, 3, marked)
}

func TestHideCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"nothing to hide: a/b?c": "nothing to hide: a/b?c",
		"https://host/a/b":       "https://host/a/b",
		"https://user:pw@host/a": "https://***@host/a",
		"https://token@host":     "https://***@host",
		"https://a@b@host/x@y":   "https://***@host/x@y", // the last @ ends what stands before the host
		"s3://bucket/key?versionId=7&X-Amz-Signature=abc": "s3://bucket/key?versionId=***&X-Amz-Signature=***",
		"https://host?sig":                                      "https://host?***",
		"https://host/?a=b=c;d=e#part":                          "https://host/?a=***;d=***#part",
		"curl -H 'x' \"https://u:p@h/?k=v\" && wget ftp://u@h/": "curl -H 'x' \"https://***@h/?k=***\" && wget ftp://***@h/",
		"scaidrive://acme/share/x":                              "scaidrive://acme/share/x",
		"://":                                                   "://",
		"://u:p@h":                                              "://***@h",
		"a://b://c:d@e/?f=g":                                    "a://b://***@e/?f=***",
		"https://u:p@h/?from=https://v:q@i/&sig=s":              "https://***@h/?from=***&sig=***",
		"https://h/?a=https://v:q@i/?sig=s":                     "https://h/?a=***",
		"https://h/x@y/?a":                                      "https://h/x@y/?***",
		"https://u:p\\@h/x":                                     "https://***@h/x",
		"first https://u:p@h/?a=b, then https://v:q@i/?c=d":     "first https://***@h/?a=*** then https://***@i/?c=***",
	} {
		require.Equal(t, want, hideCredentials(text), text)
	}
}

// A password and a signature are hidden, whatever text surrounds the URL.
func FuzzHideCredentials(f *testing.F) {
	f.Add("get https", "a=b")
	f.Add("https://h/?from=https", "&c#d")
	f.Add("x?a#b", " y")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, text := range []string{before + "://u:hunter2@h/" + after, before + "://h/?sig=hunter2" + after} {
			once := hideCredentials(text)
			if !strings.Contains(before+after, "hunter2") {
				require.NotContains(t, once, "hunter2", text)
			}
		}
		if text := before + after; !strings.Contains(text, "://") {
			require.Equal(t, text, hideCredentials(text))
		}
	})
}
