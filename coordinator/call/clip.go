package call

// Clip cuts a text that is too long at the end of a character.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}
