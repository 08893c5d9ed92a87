// One way to move a shape's bytes to another process, timed from the first post to the receiver's
// answer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv_transfer/create.h"
#include "kv_transfer/transfer.h"

namespace tandem::transfer::bench {

// layers × blocks pieces, in places that do not follow each other on either side.
struct Shape {
  std::string name;
  std::uint64_t layers = 0;
  std::uint64_t blocks = 0;
  std::uint64_t block_bytes = 0;

  std::uint64_t bytes() const { return layers * blocks * block_bytes; }
  // In the order of posting, layer after layer. The same in every process.
  std::vector<Write> Writes() const;
};

class Method {
 public:
  virtual ~Method() = default;
  virtual std::string name() const = 0;
  // Moves all of it once. Returns seconds.
  virtual double Run(const Shape& shape, std::span<const Write> writes) = 0;
};

// Each is called before the process has threads: it forks its receiver. `memory` is the source's.
std::unique_ptr<Method> MakeMemcpy(std::span<const std::byte> memory);
std::unique_ptr<Method> MakeChecksum(std::span<const std::byte> memory);
std::unique_ptr<Method> MakeTransfer(Transport transport, std::span<const std::byte> memory,
                                     UcxSettings settings);
std::unique_ptr<Method> MakeRawPut(std::span<const std::byte> memory);
std::unique_ptr<Method> MakeRawSocket(std::span<const std::byte> memory);

}  // namespace tandem::transfer::bench
