#include "tests/tune/saved_model.h"

#include <functional>
#include <map>

#include "colossal/tune/methods/methods.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/train_on_ranks.h"

namespace colossal::tune {
namespace {

std::string train_and_save(const TuningMethod& method, const test::TemporaryDirectory& directory,
                           const std::function<void(RunConfig&)>& change = {}) {
  RunConfig config;
  Tuning tuning{.method = &method, .config = {}};
  set_defaults(method, config, tuning.config);
  config.model.preset = "gpt2-tiny";
  config.model.overrides = {
      {"n_layer", 4}, {"n_embd", 18}, {"n_head", 3}, {"vocab_size", 259}, {"n_positions", 40}};
  const char* const line = &method == &reward()
                               ? R"({"prompt": "p ", "chosen": "yes", "rejected": "nothing"})"
                               : R"({"prompt": "p ", "completion": "yes, it is"})";
  config.data.train = {directory.write("lines.jsonl", line + std::string("\n"))};
  config.data.sequence_length = 40;
  config.train.steps = 2;
  config.train.global_batch = 1;
  config.train.seed = 5;
  config.optimizer.learning_rate = 1e-2;
  config.precision.compute = "fp64";
  config.checkpoint.directory = (directory / "saved").string();
  if (change) change(config);
  const Job job = resolve_job(config, {.ranks = 1, .local_ranks = 1});
  test::train_on_ranks(job, make_task(tuning));
  return (directory / "saved" / "step-000002").string();
}

}  // namespace

std::string saved_model(const TuningMethod& method) {
  static const test::TemporaryDirectory directories[2] = {
      test::TemporaryDirectory(test::Storage::memory),
      test::TemporaryDirectory(test::Storage::memory)};
  static std::map<const TuningMethod*, std::string> folders;
  const auto [found, is_new] = folders.try_emplace(&method);
  if (is_new) found->second = train_and_save(method, directories[&method == &reward() ? 1 : 0]);
  return found->second;
}

std::string saved_adapter() {
  static const test::TemporaryDirectory directory(test::Storage::memory);
  static const std::string folder = train_and_save(sft(), directory, [](RunConfig& config) {
    config.model = {.path = saved_model(sft())};
    config.adapter.kind = "lora";
    config.adapter.rank = 3;
  });
  return folder;
}

std::string saved_scoring_adapter() {
  static const test::TemporaryDirectory directory(test::Storage::memory);
  static const std::string folder = train_and_save(reward(), directory, [](RunConfig& config) {
    config.model.path = saved_model(sft());
    config.model.preset = "";
    config.model.overrides = nlohmann::json::object();
    config.adapter.kind = "lora";
    config.adapter.rank = 3;
    config.adapter.modules_to_save = {"score"};
  });
  return folder;
}

}  // namespace colossal::tune
