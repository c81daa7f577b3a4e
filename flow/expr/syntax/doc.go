// Package syntax is the text of the conditions and values in flows: it parses expressions, and says of them and of the language
// what editors ask: where a text is wrong, which names it uses where, and how each function is called.
//
// The grammar is that of CEL (the Common Expression Language), without timestamps, durations, unsigned numbers, bytes,
// messages and regular expressions. docs/use/expressions.md describes the language. Package expr evaluates what is parsed here.
//
// Guarantees: Parse never panics, and a text is bounded in length and in depth. Expressions do not change after they are parsed.
//
// # The tree
//
// Tree returns the parsed expression as a value that can be written as JSON. It is stable: the same text has the same
// tree in each version of Mind. A literal null, bool, int, string or double with a fraction is itself. Everything else
// is a list whose first element names it:
//
//	["double", 2]                     a literal double without a fraction, such as 2.0; also the call double(2)
//	["get", "a"]                      the value of a name, or of the variable of a macro
//	[".", x, "field"]                 x.field
//	["has", x, "field"]               has(x.field)
//	["[]", x, i]                      x[i]
//	["list", a, b]                    [a, b]
//	["object", k, v, l, w]            {k: v, l: w}
//	["!", x]  ["-", x]                !x, -x
//	["+", a, b]                       a + b, likewise - * / % == != < <= > >= in
//	["&&", a, b, c]  ["||", a, b]     two or more operands: a chain without parentheses is one list
//	["?:", c, a, b]                   c ? a : b
//	["size", x]                       a call; x.size() and size(x) have the same tree
//	["all", x, "v", p]                x.all(v, p), likewise exists, exists_one, filter and map
//	["map", x, "v", p, e]             x.map(v, p, e)
//
// So confidence > 0.7 has the tree [">", ["get", "confidence"], 0.7].
package syntax
