// Package request makes the body of a request from a file and from flags.
//
// What a file says is sent as it is written: YAML turns no text into a date or a number on the way. Text that is not UTF-8 is
// refused. It knows no command and checks no meaning: the gateway does.
package request
