package flows

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	v1 "github.com/mindcoordinator/mind/api/scaimind/v1"
	"github.com/mindcoordinator/mind/flow/expr/syntax"
	"github.com/mindcoordinator/mind/gateway/rest"
)

// placed is something at a place of a text. Places count units of UTF-16, as browsers and editors do.
type placed struct {
	From    int    `json:"from"`
	To      int    `json:"to"`
	Message string `json:"message,omitempty"`
	Name    string `json:"name,omitempty"`
}

// checkExpression says where a text is no expression, and which names one uses where. Whether there are such names depends on the flow
// around it: validate says that.
func checkExpression(x *rest.Request) error {
	body := &v1.CheckExpressionBody{}
	if _, err := x.Decode(body, false); err != nil {
		return err
	}
	problems, names := expression(body.GetText(), body.GetTemplate())
	return x.JSON(map[string]any{"problems": problems, "names": names})
}

func expression(text string, template bool) (problems, names []placed) {
	problems, names = []placed{}, []placed{}
	var uses []syntax.Use
	var err error
	if template {
		var t *syntax.Template
		if t, err = syntax.ParseTemplate(text); err == nil {
			uses = t.Uses()
		}
	} else {
		var e *syntax.Expr
		if e, err = syntax.Parse(text); err == nil {
			uses = e.Uses()
		}
	}
	if wrong := new(syntax.Error); errors.As(err, &wrong) {
		at := min(wrong.Offset, len(text))
		problems = append(problems, placed{From: units(text[:at]), To: units(text[:at+word(text[at:])]), Message: wrong.Message})
	}
	for _, u := range uses {
		names = append(names, placed{From: units(text[:u.From]), To: units(text[:u.To]), Name: u.Name})
	}
	return problems, names
}

// units is the length of a text in UTF-16.
func units(text string) int {
	n := 0
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// word is how many bytes of a text are one word: a name, a number, or one character.
func word(text string) int {
	n := len(text) - len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
	if n == 0 {
		_, n = utf8.DecodeRuneInString(text)
	}
	return n
}
