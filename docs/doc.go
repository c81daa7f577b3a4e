// Package docs holds the documentation, and the tests that keep the documentation and the code from drifting apart.
package docs
