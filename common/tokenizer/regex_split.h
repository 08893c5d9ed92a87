// Cuts text by a regular expression (PCRE2, UTF, Unicode properties, JIT where the machine allows).
//
// Accepts the part of the language on which Oniguruma (what tokenizer.json files are written for)
// and PCRE2 agree: literals, classes, \p{..} \P{..} \s \S \d \D \r \n \t \x{..}, groups (?: ) (?i:
// ) (?= ) (?! ), quantifiers and |. \s is White_Space. Immutable; thread-safe with one Scratch per
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::tokenizer {

class RegexSplitter {
 public:
  // What lies between two matches.
  enum class Between : std::uint8_t { kKeep, kDrop };

  // Memory for matching. Not thread-safe.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class RegexSplitter;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  // Errors: InvalidArgument for a construct outside the subset, or a bad pattern.
  static StatusOr<RegexSplitter> Compile(std::string_view pattern, Between between);

  // Calls `piece` for each piece, in order; none is empty.
  // Requires: `text` is UTF-8.
  // Errors: ResourceExhausted if matching gives up; those of `piece`.
  Status Split(std::string_view text, Scratch& scratch,
               const std::function<Status(std::string_view)>& piece) const;

 private:
  struct Code;
  RegexSplitter(std::shared_ptr<const Code> code, Between between);

  std::shared_ptr<const Code> code_;
  Between between_;
};

// `pattern` in PCRE2's words, or InvalidArgument naming the construct outside the subset.
StatusOr<std::string> TranslateRegex(std::string_view pattern);

}  // namespace tandem::tokenizer
