#include "colossal/tune/resolve.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/booster/saved_model.h"

namespace colossal::tune {
namespace {

constexpr int64_t kDefaultLength = 1024;
constexpr int64_t kDefaultPromptLength = 512;  // of methods that sample

bool has_reference(const Tuning& tuning) {
  if (is_online(tuning.method)) return tuning.config.beta != 0;
  return tuning.method == Method::dpo || tuning.method == Method::kto;
}

bool has_pairs(Method method) {
  return method != Method::sft && method != Method::kto && !is_online(method);
}

// Rows where they are packed, which takes their tokens to know; else lines.
int64_t count_samples(const Tuning& tuning, const RunConfig& run) {
  if (!tuning.config.packing) return count_lines(run.data.train, "data.train");
  const auto tokenizer = text::make_tokenizer(resolve_tokenizer(run));
  const Samples found = read_samples(run.data.train, *tokenizer, sample_options(tuning, run));
  return std::ssize(pack_samples(found.samples, *run.data.sequence_length, *tuning.config.packing));
}

}  // namespace

void resolve(const Tuning& tuning, bool has_steps, RunConfig& run) {
  if (!run.data.sequence_length) {
    const int64_t positions = models::resolve_model(run.model).facts.positions;
    const bool online = is_online(tuning.method);
    const int64_t length =
        online ? kDefaultPromptLength + tuning.config.max_completion_length : kDefaultLength;
    run.data.sequence_length = std::min(length, positions);
  }
  if (is_online(tuning.method) &&
      *run.data.sequence_length <= tuning.config.max_completion_length) {
    throw ConfigError(fmt::format(
        "tune.max_completion_length = {} with data.sequence_length = {}: there is no room for a "
        "prompt; lower the first, or raise the second as far as the model has positions",
        tuning.config.max_completion_length, *run.data.sequence_length));
  }
  if (has_steps || run.train.global_batch < 1) return;
  auto samples = static_cast<double>(count_samples(tuning, run));
  if (is_online(tuning.method)) {
    samples *= static_cast<double>(tuning.config.num_generations * tuning.config.num_iterations);
  }
  run.train.steps = std::max<int64_t>(
      1, std::llround(std::ceil(
             tuning.config.epochs * samples / static_cast<double>(run.train.global_batch) - 1e-9)));
}

Job job_of_rows(const Tuning& tuning, const Job& job) {
  Job rows = job;
  if (has_pairs(tuning.method)) {
    rows.config.train.global_batch *= 2;
    rows.share *= 2;
    rows.micro_batch *= 2;
  }
  if (has_reference(tuning)) {
    const int64_t parts = int64_t{job.strategy.tp} * job.strategy.pp *
                          (job.strategy.zero == 3 ? job.strategy.dp * job.strategy.sp : 1);
    const auto bytes = job.model.facts.parameters *
                       static_cast<int64_t>(c10::elementSize(job.precision.compute)) / parts;
    for (int64_t* budget : {&rows.device_budget, &rows.memory_budget}) {
      if (*budget > 0) *budget = std::max<int64_t>(1, *budget - bytes);
    }
  }
  return rows;
}

}  // namespace colossal::tune
