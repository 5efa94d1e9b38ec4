#include "colossal/text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "colossal/base/error.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

// A search that backtracks more often fails: the expression takes exponential time.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr size_t kStackBytes = 32 * 1024;
constexpr size_t kMaxStackBytes = 8 * 1024 * 1024;
constexpr size_t kMaxExpressionBytes = 64 * 1024;

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

void RegexDeleter::operator()(pcre2_code* code) const {
  pcre2_code_free(code);
}
void RegexDeleter::operator()(pcre2_match_context* context) const {
  pcre2_match_context_free(context);
}
void RegexDeleter::operator()(pcre2_match_data* data) const {
  pcre2_match_data_free(data);
}
void RegexDeleter::operator()(pcre2_jit_stack* stack) const {
  pcre2_jit_stack_free(stack);
}

RegexScratch::RegexScratch()
    : stack_(pcre2_jit_stack_create(kStackBytes, kMaxStackBytes, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      match_(pcre2_match_data_create(1, nullptr)) {
  if (!stack_ || !context_ || !match_) throw std::bad_alloc();
  pcre2_set_match_limit(context_.get(), kMatchLimit);
  pcre2_set_depth_limit(context_.get(), kMatchLimit);
  pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

Regex::Regex(const std::string& expression, std::string name) : name_(std::move(name)) {
  if (expression.size() > kMaxExpressionBytes) {
    throw ConfigError(
        fmt::format("a regular expression of {} bytes is too long; at most {} are supported",
                    expression.size(), kMaxExpressionBytes));
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                            context.get()));
  if (!code_) {
    throw ConfigError(
        fmt::format("the regular expression {} does not compile: {}", name_, error_text(error)));
  }
  is_jit_compiled_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
}

std::optional<Regex::Match> Regex::search(std::string_view text, size_t start,
                                          RegexScratch& scratch) const {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_match_data* const match = scratch.match_.get();
  const auto interpret = [&] {
    return pcre2_match(code_.get(), subject, text.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       match, scratch.context_.get());
  };
  int result = is_jit_compiled_ ? pcre2_jit_match(code_.get(), subject, text.size(), start, 0,
                                                  match, scratch.context_.get())
                                : interpret();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = interpret();  // the interpreter keeps its stack on the heap
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw ConfigError(
        fmt::format("the regular expression {} gave up at byte {} of a text of {} bytes: {}", name_,
                    start, text.size(), error_text(result)));
  }
  const size_t* const bounds = pcre2_get_ovector_pointer(match);
  return Match{bounds[0], bounds[1]};
}

void Regex::for_each_match(std::string_view text, RegexScratch& scratch,
                           const OnMatch& on_match) const {
  std::optional<size_t> last_end;
  for (size_t start = 0; start <= text.size();) {
    const auto match = search(text, start, scratch);
    if (!match) return;
    // Skips an empty match at the end of the previous match.
    if (match->begin == match->end && last_end == match->end) {
      if (start == text.size()) return;
      next_code_point(text, start);
      continue;
    }
    on_match(*match);
    start = match->end;
    last_end = match->end;
  }
}

}  // namespace colossal::text
