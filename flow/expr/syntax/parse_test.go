package syntax

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse_tree(t *testing.T) {
	for text, tree := range map[string]string{
		`confidence > 0.7`:                   `[">",["get","confidence"],0.7]`,
		`null`:                               `null`,
		`true`:                               `true`,
		`-5`:                                 `-5`,
		`- 5`:                                `-5`,
		`-(5)`:                               `["-",5]`,
		`--5`:                                `["-",-5]`,
		`-a.b`:                               `["-",[".",["get","a"],"b"]]`,
		`!!a`:                                `["!",["!",["get","a"]]]`,
		`!-5.abs()`:                          `["!",["abs",-5]]`,
		`0x1F`:                               `31`,
		`-0x8000000000000000`:                `-9223372036854775808`,
		`1e3`:                                `["double",1000]`,
		`.5`:                                 `0.5`,
		`2.50`:                               `2.5`,
		`a.b.c`:                              `[".",[".",["get","a"],"b"],"c"]`,
		`a.for`:                              `[".",["get","a"],"for"]`,
		`a[0]["x"]`:                          `["[]",["[]",["get","a"],0],"x"]`,
		`[1, [], "x",]`:                      `["list",1,["list"],"x"]`,
		`{}`:                                 `["object"]`,
		`{"a": 1, b: [2],}`:                  `["object","a",1,["get","b"],["list",2]]`,
		`a + b - c`:                          `["-",["+",["get","a"],["get","b"]],["get","c"]]`,
		`a + b * c % d / e`:                  `["+",["get","a"],["/",["%",["*",["get","b"],["get","c"]],["get","d"]],["get","e"]]]`,
		`a - (b - c)`:                        `["-",["get","a"],["-",["get","b"],["get","c"]]]`,
		`a - -1`:                             `["-",["get","a"],-1]`,
		`a||b||c`:                            `["||",["get","a"],["get","b"],["get","c"]]`,
		`a && b || c && d && e || f`:         `["||",["&&",["get","a"],["get","b"]],["&&",["get","c"],["get","d"],["get","e"]],["get","f"]]`,
		`(a || b) || (c || d)`:               `["||",["||",["get","a"],["get","b"]],["||",["get","c"],["get","d"]]]`,
		`a ? b : c ? d : e`:                  `["?:",["get","a"],["get","b"],["?:",["get","c"],["get","d"],["get","e"]]]`,
		`a in b == c`:                        `["==",["in",["get","a"],["get","b"]],["get","c"]]`,
		`1in[1]`:                             `["in",1,["list",1]]`,
		`a <= 1 != b >= 2`:                   `[">=",["!=",["<=",["get","a"],1],["get","b"]],2]`,
		`has(a.b.c)`:                         `["has",[".",["get","a"],"b"],"c"]`,
		`size(a) == a.size()`:                `["==",["size",["get","a"]],["size",["get","a"]]]`,
		`a.replace("x", "y").trim()`:         `["trim",["replace",["get","a"],"x","y"]]`,
		`a.all(x, x > 0)`:                    `["all",["get","a"],"x",[">",["get","x"],0]]`,
		`a.map(x, x.b)`:                      `["map",["get","a"],"x",[".",["get","x"],"b"]]`,
		`a.map(x, x > 0, x)`:                 `["map",["get","a"],"x",[">",["get","x"],0],["get","x"]]`,
		`a.filter(x, x).exists_one(y, y==1)`: `["exists_one",["filter",["get","a"],"x",["get","x"]],"y",["==",["get","y"],1]]`,
		"a // the first\n + b // and\r\n":    `["+",["get","a"],["get","b"]]`,
		`"a" 'b'`:                            ``,
		`has`:                                `["get","has"]`,
		`size`:                               `["get","size"]`,
		`r`:                                  `["get","r"]`,
		`int(1)`:                             `["int",1]`,
	} {
		e, err := Parse(text)
		if tree == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		got, err := json.Marshal(e.Tree())
		require.NoError(t, err, text)
		require.JSONEq(t, tree, string(got), text)
		require.Equal(t, text, e.Text())
	}
}

func TestParse_strings(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`:                                "a",
		`''`:                                 "",
		`"it's"`:                             "it's",
		`'say "a"'`:                          `say "a"`,
		`"\a\b\f\n\r\t\v\\\?"`:               "\a\b\f\n\r\t\v\\?",
		"\"\\\"\\'\\`\"":                     "\"'`",
		`"\x41\X42\u00e9\U0001F600\101\000"`: "AB\u00e9\U0001F600A\x00",
		`"\xe9"`:                             "\u00e9",
		`r"\d+\"`:                            `\d+\`,
		`R'\n'`:                              `\n`,
		`"""a "quoted"` + "\n" + `text\t"""`: "a \"quoted\"\ntext\t",
		`r'''\'''`:                           `\`,
		`''''''`:                             "",
		`"käse"`:                             "käse",
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, e.Tree(), text)
	}
}

func TestParse_syntaxErrors(t *testing.T) {
	for _, test := range []struct {
		text   string
		offset int
		says   string
	}{
		{``, 0, "expected a value, found the end"},
		{`a b`, 2, "expected an operator or the end, found b"},
		{`a +`, 3, "expected a value, found the end"},
		{`a + + b`, 4, "expected a value, found +"},
		{`(a`, 2, "expected ), found the end"},
		{`[1 2]`, 3, "expected , or ], found 2"},
		{`[,]`, 1, "expected a value, found ,"},
		{`{"a" 1}`, 5, "expected :, found 1"},
		{`{1: 2, `, 7, "expected a value, found the end"},
		{`a[`, 2, "expected a value"},
		{`a[1`, 3, "expected ]"},
		{`a.`, 2, "expected the name of a field or a function after ."},
		{`a.true`, 2, "expected the name of a field"},
		{`a.in`, 2, "expected the name of a field"},
		{`a."b"`, 2, "found a string"},
		{`.a`, 0, "expected a value, found ."},
		{`a ? b`, 5, "expected :, found the end"},
		{`a ? b ? c : d : e`, 6, "expected :, found ?"},
		{`!-a`, 2, "expected a number after -"},
		{`-!a`, 1, "expected a value, found !"},
		{`a = b`, 2, "expected =="},
		{`a & b`, 2, "expected &&"},
		{`a | b`, 2, "expected ||"},
		{`a ; b`, 2, "found ';'"},
		{`for`, 0, "reserved word"},
		{`in`, 0, "expected a value, found in"},
		{`"abc`, 4, "expected \" at the end of the string that begins at offset 0"},
		{"'a\nb'", 2, "expected ' at the end"},
		{`'''a''`, 6, "expected '''"},
		{`"\q"`, 1, "expected an escape sequence"},
		{`"\`, 1, "expected a character after"},
		{`"\x4"`, 1, "expected 2 digits"},
		{`"\u12`, 1, "expected 4 digits"},
		{`"\400"`, 1, "expected an escape sequence"},
		{`"\189"`, 1, "expected 3 digits"},
		{`"\ud800"`, 1, "surrogate"},
		{`"\U00110000"`, 1, "larger number"},
		{`b"x"`, 0, "bytes are not part"},
		{`rr"x"`, 0, "bytes are not part"},
		{`5u`, 1, "unsigned"},
		{`5x`, 1, "expected an operator or the end, found x"},
		{`0x`, 2, "hexadecimal digit"},
		{`1e`, 2, "digit of the exponent"},
		{`9223372036854775808`, 0, "64 bits"},
		{`1 + -9223372036854775809`, 4, "64 bits"},
		{`1e999`, 0, "64 bits"},
		{`foo(a)`, 0, "expected a function, but foo is none"},
		{`a.foo()`, 2, "expected a function, but foo is none"},
		{`all(a, x, x)`, 0, "expected a list before .all"},
		{`size()`, 0, "expected 1 arguments of size"},
		{`a.size(b)`, 2, "found 2"},
		{`substring("a")`, 0, "expected 2 to 3 arguments of substring"},
		{`size(a,)`, 7, "expected an argument after the comma"},
		{`size(a b)`, 7, "expected , or )"},
		{`has(a)`, 4, "expected a field in has"},
		{`has(a["b"])`, 4, "expected a field in has"},
		{`has(a.b`, 7, "expected )"},
		{`a.all(1, x)`, 6, "expected the name of a variable"},
		{`a.all(x.y, x)`, 7, "expected ,"},
		{`a.all(x)`, 7, "expected ,"},
		{`a.all(x, x, x)`, 10, "expected )"},
		{`a.map(x, 1, 2, 3)`, 13, "expected )"},
		{`a.all(for, x)`, 6, "expected the name of a variable"},
		{`T{a: 1}`, 1, "expected an operator or the end"},
		{"\"\xff\"", 1, "UTF-8"},
		{strings.Repeat(" ", MaxText) + "1", MaxText, "at most 4096 bytes"},
		{strings.Repeat("(", 65) + "1" + strings.Repeat(")", 65), 64, "nested at most 64 deep"},
		{strings.Repeat("!", 64) + "a", 0, "nested at most 64 deep"},
		{"a" + strings.Repeat("+a", 64), 127, "nested at most 64 deep"},
		{"a" + strings.Repeat(".a", 64), 128, "nested at most 64 deep"},
	} {
		_, err := Parse(test.text)
		var syntax *Error
		require.ErrorAs(t, err, &syntax, test.text)
		require.Contains(t, syntax.Message, test.says, test.text)
		require.Contains(t, syntax.Message, "expected ", test.text)
		require.Equal(t, test.offset, syntax.Offset, "%s: %s", test.text, syntax.Message)
	}
}

func TestParse_limits(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(" ", MaxText-1) + "1",
		strings.Repeat("(", 63) + "1" + strings.Repeat(")", 63),
		strings.Repeat("!", 63) + "a",
		"a" + strings.Repeat("+a", 63),
		"a" + strings.Repeat("||a", 1000),
		"[" + strings.Repeat("1,", 2000) + "]",
	} {
		_, err := Parse(text)
		require.NoError(t, err, text)
	}
}

func TestRoots(t *testing.T) {
	for text, want := range map[string][]string{
		`1`:                                      {},
		`b + a.c + a`:                            {"a", "b"},
		`a.map(x, x + y).filter(z, z > x)`:       {"a", "x", "y"},
		`x.map(x, x)`:                            {"x"},
		`a.all(x, b.all(x, x) && x) && has(c.d)`: {"a", "b", "c"},
		`{k: v}[i]`:                              {"i", "k", "v"},
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		require.ElementsMatch(t, want, e.Roots(), text)
		require.IsIncreasing(t, append([]string{""}, e.Roots()...), text)
	}
}
