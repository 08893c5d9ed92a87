// Which mutant runs in this process: the number of its entry in the catalogue; -1: none.
#pragma once

namespace tandem::museum {

inline int active = -1;

}  // namespace tandem::museum
