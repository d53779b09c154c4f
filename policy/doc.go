// Package policy reads limits by name from a text, YAML or JSON.
//
//	policies:
//	  sign_in:        {rate: 0.1/s, burst: 5}
//	  password_reset: {rate: 0.0167/s, burst: 3}
//
// Parse reads it whole or not at all, and says by line and column what is wrong; Policy.Config is what throttle.New takes. See Policy for
// the fields, and Schema for the JSON Schema that editors use.
package policy
