#include "common/formats/safetensors_header.h"

#include <boost/json/basic_parser_impl.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

namespace tandem::formats {
namespace {

constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kMaxTensorNameBytes = 1024;

using Text = boost::json::string_view;
using Error = boost::json::error_code;

// Takes the events of Boost's parser and checks that they spell
//   { "__metadata__": {string: string…}, name: {"dtype": …, "shape": […], "data_offsets": [b, e]}…
//   }.
// The first complaint stops the parser and stays in status().
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  explicit HeaderHandler(std::string file) : file_(std::move(file)) {}

  const Status& status() const { return status_; }
  std::vector<SafetensorsEntry> TakeEntries() { return std::move(entries_); }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }

  bool on_object_begin(Error& error) {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (text_ == "__metadata__") {
          place_ = Place::kMetadata;
        } else {
          place_ = Place::kTensor;
          current_ = Tensor{};
        }
        return true;
      default:
        return Unexpected("an object", error);
    }
  }

  bool on_object_end(std::size_t, Error& error) {
    bool good = place_ != Place::kTensor || FinishTensor(error);
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return good;
  }

  bool on_array_begin(Error& error) {
    if (place_ == Place::kTensor && field_ == Field::kShape) {
      current_.shape.emplace();
      place_ = Place::kShape;
      return true;
    }
    if (place_ == Place::kTensor && field_ == Field::kOffsets) {
      current_.has_offsets = true;
      place_ = Place::kOffsets;
      return true;
    }
    return Unexpected("an array", error);
  }

  bool on_array_end(std::size_t, Error&) {
    place_ = Place::kTensor;
    return true;
  }

  bool on_key_part(Text part, std::size_t, Error& error) { return Append(part, error); }
  bool on_key(Text part, std::size_t, Error& error) {
    if (!Append(part, error)) return false;
    text_.swap(pending_);
    pending_.clear();
    if (place_ == Place::kTop) return StartName(error);
    if (place_ == Place::kTensor) return StartField(error);
    return true;  // a key of __metadata__
  }

  bool on_string_part(Text part, std::size_t, Error& error) {
    return place_ == Place::kMetadata || Append(part, error);
  }
  bool on_string(Text part, std::size_t, Error& error) {
    if (place_ == Place::kMetadata) return true;
    if (!Append(part, error)) return false;
    if (place_ != Place::kTensor || field_ != Field::kDType) return Unexpected("a string", error);
    current_.dtype.emplace(std::exchange(pending_, {}));
    return true;
  }

  bool on_number_part(Text, Error&) { return true; }
  bool on_int64(std::int64_t value, Text, Error& error) {
    if (value < 0) return Unexpected("a negative number", error);
    return on_uint64(static_cast<std::uint64_t>(value), {}, error);
  }
  bool on_uint64(std::uint64_t value, Text, Error& error) {
    if (place_ == Place::kShape) {
      if (value > std::uint64_t{1} << 62) return Fail(error, "dimension {} is impossible", value);
      if (current_.shape->size() == kMaxRank) {
        return Fail(error, "has more than {} dimensions", kMaxRank);
      }
      current_.shape->push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (current_.num_offsets == 2) return Fail(error, "has more than two data_offsets");
      current_.offsets[current_.num_offsets++] = value;
      return true;
    }
    return Unexpected("a number", error);
  }
  bool on_double(double, Text, Error& error) { return Unexpected("a fraction", error); }
  bool on_bool(bool, Error& error) { return Unexpected("a boolean", error); }
  bool on_null(Error& error) { return Unexpected("null", error); }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };
  enum class Field { kDType, kShape, kOffsets };
  struct Tensor {
    std::optional<std::string> dtype;
    std::optional<TensorShape> shape;
    bool has_offsets = false;
    int num_offsets = 0;
    std::uint64_t offsets[2] = {0, 0};
  };

  bool Stop(Error& error, Status status) {
    status_ = std::move(status);
    error = boost::json::error::syntax;
    return false;
  }
  template <typename... Args>
  bool Fail(Error& error, fmt::format_string<Args...> format, Args&&... args) {
    return Stop(error,
                InvalidArgument("{}: tensor {}: {}; the file is damaged", file_, Quoted(name_),
                                fmt::format(format, std::forward<Args>(args)...)));
  }
  bool Unexpected(std::string_view what, Error& error) {
    return Stop(error,
                InvalidArgument("{}: the header has {} where none belongs (after key {}); not a "
                                "safetensors file, or a damaged one",
                                file_, what, Quoted(text_)));
  }
  bool Append(Text part, Error& error) {
    if (pending_.size() + part.size() > kMaxTensorNameBytes) {
      return Stop(error,
                  InvalidArgument("{}: a name in the header is longer than {} bytes; the file is "
                                  "damaged",
                                  file_, kMaxTensorNameBytes));
    }
    pending_.append(part.data(), part.size());
    return true;
  }
  bool StartName(Error& error) {
    name_ = text_;
    if (names_.insert(name_).second) return true;
    return Fail(error, "occurs twice");
  }
  bool StartField(Error& error) {
    if (text_ == "dtype" && !current_.dtype) {
      field_ = Field::kDType;
    } else if (text_ == "shape" && !current_.shape) {
      field_ = Field::kShape;
    } else if (text_ == "data_offsets" && !current_.has_offsets) {
      field_ = Field::kOffsets;
    } else {
      return Fail(error, "has an unknown or repeated field {}", Quoted(text_));
    }
    return true;
  }
  bool FinishTensor(Error& error);

  const std::string file_;
  Status status_;
  Place place_ = Place::kOutside;
  Field field_ = Field::kDType;
  std::string pending_;  // parts of the key or string being read
  std::string text_;     // the last key
  std::string name_;     // the current tensor
  Tensor current_;
  std::unordered_set<std::string> names_;
  std::vector<SafetensorsEntry> entries_;
};

bool HeaderHandler::FinishTensor(Error& error) {
  if (!current_.dtype || !current_.shape || current_.num_offsets != 2) {
    return Fail(error, "lacks dtype, shape or two data_offsets");
  }
  auto dtype = DTypeFromSafetensors(*current_.dtype);
  if (!dtype) {
    return Stop(error,
                Unimplemented("{}: tensor {}: has dtype {}; F32, F16 and BF16 are read: convert "
                              "the model",
                              file_, Quoted(name_), Quoted(*current_.dtype)));
  }
  std::int64_t elems = 1;
  bool overflow = false;
  for (std::int64_t dim : *current_.shape) overflow |= __builtin_mul_overflow(elems, dim, &elems);
  auto bytes = overflow ? std::nullopt : BytesFor(*dtype, elems);
  std::uint64_t begin = current_.offsets[0];
  std::uint64_t end = current_.offsets[1];
  if (!bytes || end < begin || end - begin != static_cast<std::uint64_t>(*bytes)) {
    return Fail(error, "data_offsets [{}, {}] do not fit shape {} of {}", begin, end,
                ToString(*current_.shape), *current_.dtype);
  }
  entries_.push_back({name_, *dtype, std::move(*current_.shape), begin, end});
  return true;
}

}  // namespace

StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(const std::string& file,
                                                               std::string_view json) {
  if (json.empty() || json.front() != '{') {
    return InvalidArgument("{}: the header does not start with '{{': not a safetensors file", file);
  }
  boost::json::basic_parser<HeaderHandler> parser(boost::json::parse_options(), file);
  Error error;
  std::size_t read = parser.write_some(false, json.data(), json.size(), error);
  if (!parser.handler().status().ok()) return parser.handler().status();
  if (!error && read < json.size()) error = boost::json::error::extra_data;
  if (error) {
    return InvalidArgument("{}: the header is no valid JSON at byte {}: {}; the file is damaged",
                           file, read, error.message());
  }
  return parser.handler().TakeEntries();
}

}  // namespace tandem::formats
