// Package migrate has the snippets of docs/migrating.md, before and after.
package migrate
