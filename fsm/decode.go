package fsm

// CheckEntry says whether this version can apply a log entry, without applying it.
func CheckEntry(data []byte) error {
	_, err := decodeEntry(data)
	return err
}
