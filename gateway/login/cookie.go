package login

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/mindcoordinator/mind/gateway/session"
)

// patience is how long a user may take to sign in.
const patience = 10 * time.Minute

// cookie is of the name that fits the site. The issuer sends the browser back by a link, with which Strict cookies do not come.
func cookie(site session.Site) *http.Cookie {
	return site.Cookie("login", http.SameSiteLaxMode)
}

// Keep lets the browser keep a sign-in that has begun.
func (p *Pending) Keep(w http.ResponseWriter, site session.Site) {
	text, _ := json.Marshal(p) // strings always can be
	c := cookie(site)
	c.Value, c.MaxAge = base64.RawURLEncoding.EncodeToString(text), int(patience.Seconds())
	http.SetCookie(w, c)
}

// Clear lets the browser forget a sign-in.
func Clear(w http.ResponseWriter, site session.Site) {
	c := cookie(site)
	c.MaxAge = -1
	http.SetCookie(w, c)
}

// Kept returns the sign-in that a browser has kept; nil: there is none.
func Kept(r *http.Request, site session.Site) *Pending {
	kept := r.CookiesNamed(cookie(site).Name)
	if len(kept) == 0 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(kept[0].Value)
	var p Pending
	if len(kept) > 1 || err != nil || json.Unmarshal(text, &p) != nil || p.State == "" || p.Nonce == "" || p.Verifier == "" {
		return nil
	}
	p.Next = Next(p.Next)
	return &p
}
