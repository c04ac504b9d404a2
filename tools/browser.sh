#!/usr/bin/env bash
# Usage: browser.sh     Debian's Chromium, in which a test opens report.html; installed only where there is none.
. "$(dirname "$0")/lib.sh"

command -v chromium >/dev/null || packages "opens report.html for a test" chromium
