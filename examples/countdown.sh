#!/bin/sh
# Counts down, and shows how a tool speaks to Wakepoint: by lines on standard output
# that begin with "::wakepoint". Anything else that it writes is its log.
set -eu
seconds=$1
left=$seconds
while [ "$left" -gt 0 ]; do
	echo "::wakepoint progress=$(((seconds - left) * 100 / seconds)) stage=\"$left s left\""
	echo "$left"
	sleep 1
	left=$((left - 1))
done
# The result is what stands in this file at the end; without it, what was written to
# standard output. Run by hand there is no such file.
echo "{\"counted\": $seconds}" >"${WAKEPOINT_RESULT:-/dev/stdout}"
