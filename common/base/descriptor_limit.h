// How many files and sockets the process may have open.
#pragma once

namespace tandem {

// Raises the soft limit to the hard one: a connection is a descriptor, and the usual soft limit of
// 1024 is for programs that use select().
void RaiseDescriptorLimit();

}  // namespace tandem
