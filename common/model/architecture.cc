#include "common/model/architecture.h"

#include <string>

#include "common/formats/tensor_source.h"

namespace tandem::model {

StatusOr<Architecture> FindArchitecture(std::string_view name, std::span<const Architecture> known,
                                        std::string_view where) {
  std::string names;
  for (Architecture architecture : known) {
    if (Name(architecture) == name) return architecture;
    if (!names.empty()) names += ", ";
    names += Name(architecture);
  }
  return Unimplemented("{}: architecture {} is not supported; supported: {}", where,
                       formats::Quoted(name), names);
}

}  // namespace tandem::model
