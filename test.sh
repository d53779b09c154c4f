#!/bin/sh
# Passes all tests of all modules, under the race detector. Further arguments go to go test, as in
#   ./test.sh -run TestC1
#   ./test.sh -stress.for=10m .          (a package last: that one alone)
# The race detector needs a C compiler: it is installed from Debian's packages where that may be done.
set -u
cd "$(dirname "$0")" || exit 1

command -v go >/dev/null 2>&1 || { echo "test.sh: want Go 1.26 or later: https://go.dev/dl" >&2; exit 1; }

race=-race
if [ "$(go env CGO_ENABLED)" = 0 ] || ! command -v "$(go env CC)" >/dev/null 2>&1; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		apt-get update -qq && apt-get install -y -qq gcc libc6-dev >/dev/null
	fi
	if command -v gcc >/dev/null 2>&1; then
		CGO_ENABLED=1
		export CGO_ENABLED
	else
		race=
		echo "test.sh: SKIPPED: the race detector, for want of a C compiler; the tests run without it." >&2
	fi
fi

# The tests of throttleredis start servers of their own.
if ! command -v redis-server >/dev/null 2>&1; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		apt-get update -qq && apt-get install -y -qq redis-server >/dev/null
	fi
	command -v redis-server >/dev/null 2>&1 || echo "test.sh: SKIPPED: the tests of throttleredis, for want of redis-server." >&2
fi

# A last argument that names packages stands for them alone.
last=
for last in "$@"; do :; done
case "$last" in
. | ./*) exec go test $race "$@" ;;
esac
packages=
for mod in go.mod */go.mod cmd/*/go.mod; do
	[ -f "$mod" ] && packages="$packages ./$(dirname "$mod")/..."
done
# shellcheck disable=SC2086 # words on purpose
exec go test $race "$@" $packages
