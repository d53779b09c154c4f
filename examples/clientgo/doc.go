// Package clientgo shows a Kubernetes client whose requests pass a limiter of one's own.
package clientgo
