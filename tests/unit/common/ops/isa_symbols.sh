#!/bin/sh
# The objects built for one instruction set may define nothing but their kernel table: a weak symbol
# (an inline function, say) could be the copy that the linker keeps for every processor.
#   isa_symbols.sh LIBRARY
set -eu
nm --defined-only "$1" | awk '
  /^kernels_(avx.*|amx)[.].*:$/ { member = $1; members++; next }
  /:$/ { member = "" }
  member != "" && NF == 3 && $2 !~ /^[a-z]$/ || member != "" && NF == 3 && $2 ~ /^[uvw]$/ {
    if ($3 !~ /k(Avx2|Avx512|Avx512Vnni|Amx)KernelsE$/ && $3 !~ /^__odr_asan/) {
      print member " defines " $2 " " $3; bad = 1
    } else { tables++ }
  }
  END {
    if (members != 4) { print "4 objects expected, " members + 0 " found"; bad = 1 }
    if (tables < 4) { print "4 tables expected, " tables + 0 " found"; bad = 1 }
    exit bad
  }'
