#!/bin/sh
# The objects of a library that are built for one instruction set may define nothing but what they
# are for: a weak symbol (an inline function, say) could be the copy that the linker keeps for every
# processor.
#   isa_symbols.sh LIBRARY OBJECTS COUNT ALLOWED   OBJECTS: awk's pattern of their names without
#                                                  ending; ALLOWED: of the symbol each may define
set -eu
nm --defined-only "$1" | awk -v objects="^$2[.].*:\$" -v count="$3" -v allowed="$4" '
  $0 ~ objects { member = $1; members++; next }
  /:$/ { member = "" }
  member != "" && NF == 3 && $2 !~ /^[a-z]$/ || member != "" && NF == 3 && $2 ~ /^[uvw]$/ {
    if ($3 !~ allowed && $3 !~ /^__odr_asan/) {
      print member " defines " $2 " " $3; bad = 1
    } else { found++ }
  }
  END {
    if (members != count) { print count " objects expected, " members + 0 " found"; bad = 1 }
    if (found < count) { print count " symbols expected, " found + 0 " found"; bad = 1 }
    exit bad
  }'
