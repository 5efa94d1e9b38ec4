#include "colossal/serve/engine.h"

#include <chrono>
#include <memory>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/progress.h"
#include "colossal/base/units.h"
#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/comm/world.h"
#include "colossal/server/server.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct ServeArguments {
  std::string model;
  server::ServerOptions server;
  std::string drain_timeout = "30s";
  std::string served_name;  // empty: the folder's
  serve::EngineOptions engine;
  std::string kv_bytes;  // empty: what the engine takes by itself
  QuantizeArguments quantize;
  std::vector<std::string> flags;  // --section.key=value
};

std::string name_of(const ServeArguments& arguments) {
  if (!arguments.served_name.empty()) return arguments.served_name;
  const std::filesystem::path path = std::filesystem::weakly_canonical(arguments.model);
  return path.filename().string();
}

void resolve_options(ServeArguments& arguments) {
  const auto drain = parse_duration(arguments.drain_timeout);
  if (!drain) {
    throw ConfigError(
        fmt::format("--drain-timeout={}: must be a duration such as 30s", arguments.drain_timeout));
  }
  arguments.server.drain_timeout = *drain;
  if (arguments.kv_bytes.empty()) return;
  const auto bytes = parse_bytes(arguments.kv_bytes);
  if (!bytes || bytes->bytes < 1) {
    throw ConfigError(
        fmt::format("--kv-bytes={}: must be a size such as 2GiB", arguments.kv_bytes));
  }
  arguments.engine.cache_bytes = bytes->bytes;
}

void check_length(const serve::EngineOptions& options, const models::ModelFacts& facts) {
  if (options.max_model_len <= facts.positions) return;
  throw ConfigError(fmt::format("--max-model-len={}: the model has {} positions",
                                options.max_model_len, facts.positions));
}

std::unique_ptr<serve::InferenceModel> load(const models::ModelSpecification& specification,
                                            const InferenceConfig& config, at::Device device,
                                            const std::optional<ops::Quantization>& quantization) {
  std::optional<ProgressLine> line;
  return open_model(specification, config, device, quantization, [&](int64_t done, int64_t total) {
    if (!line) line.emplace("loading", 0, total, "tensors");
    line->update(done);
    if (done == total) line->finish();
  });
}

void say_ready(const server::Server& server, const server::ServedModel& model,
               const serve::Engine& engine, Clock::duration taken) {
  const serve::EngineStatistics pages = engine.statistics();
  const bool chats = model.chat_template() != nullptr;
  log::info(
      "serving {} on http://{} after {}: the OpenAI API under /v1, a chat page at /, /metrics\n"
      "           {} pages of {} tokens for keys and values: {}; longest sequence {} tokens; {} of "
      "memory in use\n"
      "           curl http://{}/v1/{} -H 'Content-Type: application/json' -d '{}'",
      model.name(), server.address(), format_duration(taken), format_count(pages.pages),
      pages.page_size, format_bytes(engine.options().cache_bytes), format_count(model.max_length()),
      format_bytes(machine::resident_bytes()), server.address(),
      chats ? "chat/completions" : "completions",
      chats ? R"({"messages": [{"role": "user", "content": "Hello"}]})"
            : R"({"prompt": "Hello", "max_tokens": 32})");
}

void serve_model(ServeArguments arguments) {
  const Clock::time_point start = Clock::now();
  const auto config = parse_flags<InferenceConfig>(arguments.flags);
  prepare(config);
  resolve_options(arguments);
  const auto quantization = resolve_quantization(arguments.quantize);
  const models::ModelSpecification specification = resolve_trained_model(arguments.model, "serve");
  check_length(arguments.engine, specification.facts);
  server::ServedModel served(arguments.model, name_of(arguments), specification.facts.positions,
                             specification.facts.vocabulary);
  // Before other threads: it takes the stop signals. A port in use is told before weights are read.
  server::Server server(arguments.server);
  const at::Device device = comm::device_alone("auto");
  const auto model = load(specification, config, device, quantization);
  arguments.engine.device = device;
  arguments.engine.type = model->type();
  auto engine = std::make_unique<serve::Engine>(**model, specification.facts, arguments.engine);
  served.set_max_length(engine->options().max_model_len);
  const serve::Engine& serving = *engine;
  server.begin(served, std::move(engine));
  say_ready(server, served, serving, Clock::now() - start);
  server.finish();
}

void add_server_options(CLI::App& command, ServeArguments& arguments) {
  server::ServerOptions& server = arguments.server;
  command
      .add_option("--host", server.host,
                  "address to listen on; 0.0.0.0: all of the machine's, for which set --api-key")
      ->capture_default_str();
  command.add_option("--port", server.port, "0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--api-key", server.api_key,
                     "what clients must send as \"Authorization: Bearer KEY\"; none by default");
  command.add_option("--served-name", arguments.served_name,
                     "name of the model in requests; by default that of the folder");
  command
      .add_option("--drain-timeout", arguments.drain_timeout,
                  "how long a stop waits for requests under way")
      ->capture_default_str();
}

void add_engine_options(CLI::App& command, ServeArguments& arguments) {
  serve::EngineOptions& engine = arguments.engine;
  const auto add = [&](const char* name, int64_t& value, const char* help, int64_t minimum) {
    command.add_option(name, value, help)
        ->check(CLI::Range(minimum, int64_t{1} << 40))
        ->capture_default_str();
  };
  add("--max-model-len", engine.max_model_len,
      "longest sequence in tokens, prompt and answer; 0: the model's positions, or what there is "
      "memory for",
      0);
  add("--max-num-seqs", engine.max_num_seqs, "most requests that run at once", 1);
  add("--max-batch-tokens", engine.max_batch_tokens, "most tokens of a step", 1);
  add("--queue", engine.max_queue, "most requests that wait; more get status 429", 1);
  command.add_option("--kv-bytes", arguments.kv_bytes,
                     "memory for keys and values, such as 2GiB; by default that of the most and "
                     "longest requests, at most a quarter of what is free");
  command.add_flag("!--no-prefix-cache", engine.prefix_cache,
                   "requests with equal beginnings do not share keys and values");
  command.add_flag("--batch-invariant", engine.batch_invariant,
                   "bits do not follow from how prompts are cut into chunks; long prompts take "
                   "longer");
}

}  // namespace

void add_serve(CLI::App& app, int&) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = app.add_subcommand(
      "serve", "Answer requests of the OpenAI API with a model, until SIGTERM or Ctrl-C");
  command->add_option("model", arguments->model, "a Hugging Face folder, for example a checkpoint")
      ->required();
  add_server_options(*command, *arguments);
  add_engine_options(*command, *arguments);
  add_quantize(*command, arguments->quantize);
  command->allow_extras();
  command->footer(help_of_keys<InferenceConfig>);
  command->callback([arguments, command] {
    arguments->flags = command->remaining();
    serve_model(*arguments);
  });
}

}  // namespace colossal::cli
