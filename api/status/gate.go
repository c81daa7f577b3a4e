package status

import "strings"

// MaxGateWord limits the names of gates and the ids of their options; bytes.
const MaxGateWord = 64

// ValidGateWord reports whether a text may name a gate, or an option of one: letters, digits, dots, dashes and underscores. People paste
// such a word into a shell, and a job receives it in its environment.
func ValidGateWord(word string) bool {
	return word != "" && len(word) <= MaxGateWord && !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}
