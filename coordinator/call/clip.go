package call

// Clip truncates a long text at a character boundary.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}
