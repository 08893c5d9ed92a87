// The stages around the model in a tokenizer.json: normaliser, pre-tokenizer, decoder,
// post-processor.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/tokenizer_data.h"

namespace tandem::tokenizer {

// Each reads one member of the file's top object into `data`, in this order: the later ones look at
// what the earlier ones found. Errors: InvalidArgument naming the stage and the construct that is
// not supported.
Status ReadNormalizer(const boost::json::object& file, TokenizerData& data);
// Says whether the vocabulary is byte-level: data.model becomes kByteLevelBpe or kBpe.
Status ReadPreTokenizer(const boost::json::object& file, TokenizerData& data);
Status ReadDecoder(const boost::json::object& file, TokenizerData& data);
Status ReadPostProcessor(const boost::json::object& file, TokenizerData& data);

// Typed members of a JSON object. Missing and null are alike: `fallback`.
// Errors: InvalidArgument for another type.
StatusOr<bool> JsonBoolOr(const boost::json::object& object, std::string_view key, bool fallback);
StatusOr<std::string> JsonStringOr(const boost::json::object& object, std::string_view key,
                                   std::string_view fallback);
StatusOr<std::string> JsonString(const boost::json::object& object, std::string_view key);
// Null if missing or null.
const boost::json::value* JsonMember(const boost::json::object& object, std::string_view key);

}  // namespace tandem::tokenizer
