// Package request builds the body of a request from a file and from flags.
//
// The contents of a file are sent as written: YAML does not turn text into dates or numbers. Text that is not UTF-8 is
// refused. The package does not depend on commands, and does not check the meaning of fields: the gateway does.
package request
