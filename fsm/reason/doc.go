// Package reason is how the replicated state says why: as a code with parameters, not as a sentence.
//
// A [Reason] is a string, so that rows stay comparable, small and shareable, and keep their CBOR and hash fields. It is
// either plain text (what a person or an agent said) or a code with parameters.
// A coded one begins with a byte that no text made by [Text] begins with, and is printable after that:
//
//	0x01, the code in decimal, and for each parameter
//	  i<number>;          a number: "i30;"
//	  s<bytes>:<text>     a text: "s2:n1"
//	  r<bytes>:<reason>   a reason, plain or coded
//
// It is not binary because a reason that is passed on by mistake must not make an invalid UTF-8 string of a gRPC message.
// There is one encoding of each reason. Ids are texts: an id has one spelling. States and errors are the numbers of their
// enums.
//
// Codes are append-only, and so are the kinds of their parameters. The sentences that people read are made on reading, in
// package coordinator/words, and may change at any time: no hash depends on them.
package reason
