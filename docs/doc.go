// Package docs holds the documentation, and tests that compare the documentation with the code.
package docs
