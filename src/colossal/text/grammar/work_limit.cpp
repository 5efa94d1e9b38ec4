#include "colossal/text/grammar/work_limit.h"

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {
namespace {

constexpr int64_t kMostTransitions = 20'000'000;

thread_local int depth = 0;
thread_local int64_t counted = 0;

}  // namespace

WorkLimit::WorkLimit() {
  if (depth++ == 0) counted = 0;
}

WorkLimit::~WorkLimit() {
  --depth;
}

void WorkLimit::count(int64_t transitions) {
  if (depth == 0) return;
  counted += transitions;
  if (counted > kMostTransitions) {
    throw GrammarError(
        "the conditions on strings and numbers of the schema (\"pattern\", \"format\", bounds) "
        "take "
        "too long to combine");
  }
}

}  // namespace colossal::text::grammar
