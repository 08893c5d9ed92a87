// Copies to memory that this core will not read again: stores pass by the caches, which saves
// reading the destination first and leaves the caches to the computation.
#pragma once

#include <cstddef>

namespace tandem::transfer {

// As memcpy. The bytes are ordered before later stores only after StreamingFence.
void StreamingCopy(std::byte* to, const std::byte* from, std::size_t bytes);
// Every StreamingCopy of this thread is visible before what it stores or sends next.
void StreamingFence();

}  // namespace tandem::transfer
