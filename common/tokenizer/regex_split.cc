#include "common/tokenizer/regex_split.h"

#include "common/base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

namespace tandem::tokenizer {
namespace {

// One match may take this many steps: a few times the largest text, far below what a catastrophic
// pattern wants.
constexpr std::uint32_t kMatchLimit = 20'000'000;
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kJitStackStart = 32 * 1024;
constexpr std::size_t kJitStackMax = 8 * 1024 * 1024;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0)
    return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct RegexSplitter::Code {
  explicit Code(pcre2_code* code) : code(code) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
};

struct RegexSplitter::Scratch::Impl {
  Impl()
      : context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)),
        match(pcre2_match_data_create(1, nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Impl() {
    pcre2_match_data_free(match);
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
  }

  pcre2_match_context* context;
  pcre2_jit_stack* stack;
  pcre2_match_data* match;
};

RegexSplitter::Scratch::Scratch() : impl_(std::make_unique<Impl>()) {}
RegexSplitter::Scratch::~Scratch() = default;

RegexSplitter::RegexSplitter(std::shared_ptr<const Code> code, Between between)
    : code_(std::move(code)), between_(between) {}

StatusOr<RegexSplitter> RegexSplitter::Compile(std::string_view pattern, Between between) {
  if (auto bad = FindInvalidUtf8(pattern)) {
    return InvalidArgument("regular expression is not UTF-8 at byte {}", *bad);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string translated, TranslateRegex(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* raw =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (raw == nullptr) {
    return InvalidArgument("regular expression '{}': {}", pattern.substr(0, 200), ErrorText(error));
  }
  auto code = std::make_shared<const Code>(raw);
  // Without executable memory PCRE2 interprets: slower, with the same result.
  (void)pcre2_jit_compile(raw, PCRE2_JIT_COMPLETE);
  return RegexSplitter(std::move(code), between);
}

Status RegexSplitter::Split(std::string_view text, Scratch& scratch,
                            const std::function<Status(std::string_view)>& piece) const {
  Scratch::Impl& s = *scratch.impl_;
  if (s.context == nullptr || s.match == nullptr) {
    return ResourceExhausted("no memory to match a regular expression");
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0;   // all before it has been handed out
  std::size_t start = 0;  // where to search on
  while (start < text.size()) {
    const int found = pcre2_match(code_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK,
                                  s.match, s.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return ResourceExhausted("cutting {} bytes of text at byte {}: {}", text.size(), start,
                               ErrorText(found));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(s.match);
    const std::size_t begin = range[0];
    const std::size_t end = range[1];
    if (end <= begin) {  // an empty match cuts nothing; go on behind the character
      start = begin < text.size() ? begin + ScanUtf8(text, begin).length : text.size();
      continue;
    }
    if (begin > done && between_ == Between::kKeep) {
      TANDEM_RETURN_IF_ERROR(piece(text.substr(done, begin - done)));
    }
    TANDEM_RETURN_IF_ERROR(piece(text.substr(begin, end - begin)));
    done = start = end;
  }
  if (done < text.size() && between_ == Between::kKeep) {
    TANDEM_RETURN_IF_ERROR(piece(text.substr(done)));
  }
  return OkStatus();
}

}  // namespace tandem::tokenizer
