#include "colossal/serve/step_plan.h"

#include <bit>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

// Reads numbers from the beginning of a message.
class Reader {
 public:
  explicit Reader(std::span<const int64_t> numbers) : numbers_(numbers) {}

  int64_t next() { return take(1).front(); }
  std::vector<int64_t> list(int64_t count) {
    const auto taken = take(count);
    return {taken.begin(), taken.end()};
  }
  bool done() const { return numbers_.empty(); }

 private:
  std::span<const int64_t> take(int64_t count) {
    COLOSSAL_CHECK(count >= 0 && count <= std::ssize(numbers_), "{} numbers of {}", count,
                   numbers_.size());
    const auto taken = numbers_.first(count);
    numbers_ = numbers_.subspan(count);
    return taken;
  }

  std::span<const int64_t> numbers_;
};

int64_t bits_of(double number) {
  return std::bit_cast<int64_t>(number);
}

}  // namespace

std::vector<int64_t> to_numbers(const StepPlan& plan) {
  std::vector<int64_t> numbers{std::ssize(plan.copied_pages),    std::ssize(plan.chunks),
                               std::ssize(plan.tokens),          std::ssize(plan.wanted_logits),
                               std::ssize(plan.wanted_states),   std::ssize(plan.adapted),
                               std::ssize(plan.types),           std::ssize(plan.sources),
                               std::ssize(plan.dropped_sources), std::ssize(plan.choices)};
  const auto append = [&](const std::vector<int64_t>& list) {
    numbers.insert(numbers.end(), list.begin(), list.end());
  };
  for (const auto& [from, to] : plan.copied_pages) append({from, to});
  for (const auto& [tokens, prompt, source] : plan.chunks) {
    append({tokens.positions.begin, tokens.positions.end, prompt, source, tokens.alone ? 1 : 0,
            std::ssize(tokens.pages)});
    append(tokens.pages);
  }
  for (const auto& [adapter, begin, count] : plan.adapted) append({adapter, begin, count});
  for (const auto& [row, temperature, top_k, top_p, min_p, random] : plan.choices) {
    append({row, bits_of(temperature), top_k, bits_of(top_p), bits_of(min_p), bits_of(random)});
  }
  for (const auto& [number, tokens] : plan.sources) {
    append({number, std::ssize(tokens)});
    append(tokens);
  }
  append(plan.dropped_sources);
  append(plan.tokens);
  append(plan.types);
  append(plan.wanted_logits);
  append(plan.wanted_states);
  return numbers;
}

StepPlan plan_from_numbers(std::span<const int64_t> numbers) {
  Reader reader(numbers);
  StepPlan plan;
  const int64_t copies = reader.next(), chunks = reader.next(), tokens = reader.next(),
                logits = reader.next(), states = reader.next(), adapted = reader.next(),
                types = reader.next(), sources = reader.next(), dropped = reader.next(),
                choices = reader.next();
  for (int64_t i = 0; i < copies; ++i) {
    const int64_t from = reader.next();
    plan.copied_pages.emplace_back(from, reader.next());
  }
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = reader.next(), end = reader.next(), prompt = reader.next(),
                  source = reader.next(), alone = reader.next();
    plan.chunks.push_back({{{begin, end}, reader.list(reader.next()), alone != 0}, prompt, source});
  }
  for (int64_t i = 0; i < adapted; ++i) {
    const int64_t adapter = reader.next(), begin = reader.next();
    plan.adapted.push_back({adapter, begin, reader.next()});
  }
  for (int64_t i = 0; i < choices; ++i) {
    const int64_t row = reader.next(), temperature = reader.next(), top_k = reader.next(),
                  top_p = reader.next(), min_p = reader.next(), random = reader.next();
    plan.choices.push_back({row, std::bit_cast<double>(temperature), top_k,
                            std::bit_cast<double>(top_p), std::bit_cast<double>(min_p),
                            std::bit_cast<double>(random)});
  }
  for (int64_t i = 0; i < sources; ++i) {
    const int64_t number = reader.next();
    plan.sources.push_back({number, reader.list(reader.next())});
  }
  plan.dropped_sources = reader.list(dropped);
  plan.tokens = reader.list(tokens);
  plan.types = reader.list(types);
  plan.wanted_logits = reader.list(logits);
  plan.wanted_states = reader.list(states);
  COLOSSAL_CHECK(reader.done(), "numbers are left of a plan");
  return plan;
}

}  // namespace colossal::serve
