#include "colossal/serve/engine.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/progress.h"
#include "colossal/base/units.h"
#include "colossal/cli/access_arguments.h"
#include "colossal/cli/command.h"
#include "colossal/cli/generation_arguments.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/rank_timeout.h"
#include "colossal/io/hub_cache.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/server/api_error.h"
#include "colossal/server/server.h"

namespace colossal::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct ServeArguments {
  std::string model;
  server::ServerOptions server;
  AccessArguments access;
  std::string drain_timeout = "30s";
  std::optional<std::string> rank_timeout;
  std::string served_name;  // empty: the source's name
  serve::EngineOptions engine;
  std::string kv_bytes;  // empty: the engine chooses
  QuantizeArguments quantize;
  SpeculationArguments speculation;
  GenerationArguments generation;
  std::vector<std::string> adapters;  // NAME=DIR
  size_t max_adapters = 32;
  std::string tool_call_parser = "auto", reasoning_parser = "auto";
  std::optional<int> ranks;
  std::vector<std::string> flags;  // --section.key=value
};

void resolve_options(ServeArguments& arguments, std::chrono::milliseconds parallel_timeout) {
  arguments.server.drain_timeout = resolve_duration("drain-timeout", arguments.drain_timeout);
  arguments.server.api.access = resolve_access(arguments.access);
  arguments.engine.heartbeat = resolve_rank_timeout(arguments.rank_timeout, parallel_timeout);
  if (arguments.kv_bytes.empty()) return;
  const auto bytes = parse_bytes(arguments.kv_bytes);
  if (!bytes || bytes->bytes < 1) {
    throw ConfigError(
        fmt::format("--kv-bytes={}: must be a size such as 2GiB", arguments.kv_bytes));
  }
  arguments.engine.cache_bytes = bytes->bytes;
}

struct NamedAdapter {
  std::string name, folder;
};

// Checks each adapter, as far as possible without its weights, before the model's weights are read.
std::vector<NamedAdapter> resolve_adapters(const ServeArguments& arguments,
                                           const models::ModelSpecification& specification) {
  std::vector<NamedAdapter> adapters;
  for (const std::string& argument : arguments.adapters) {
    const size_t end = argument.find('=');
    if (end == 0 || end == argument.npos || end + 1 == argument.size()) {
      throw ConfigError(
          fmt::format("--adapter={}: must be NAME=DIR: the name that requests choose the adapter "
                      "by, and a peft folder",
                      argument));
    }
    const NamedAdapter adapter{argument.substr(0, end),
                               io::find_model(argument.substr(end + 1)).string()};
    if (adapter.name == arguments.served_name ||
        std::ranges::find(adapters, adapter.name, &NamedAdapter::name) != adapters.end()) {
      throw ConfigError(fmt::format("--adapter={}: the name {} is already in use; choose another",
                                    argument, adapter.name));
    }
    models::with_adapter(specification, adapter.folder);
    adapters.push_back(adapter);
  }
  if (adapters.size() > arguments.max_adapters) {
    throw ConfigError(
        fmt::format("--max-adapters={}: but --adapter loads {}; give a larger --max-adapters",
                    arguments.max_adapters, adapters.size()));
  }
  return adapters;
}

// Returns the form that an option names; nullopt for "auto". form_of: returns the form of a name.
template <typename FormOf>
auto resolve_form(const char* option, const std::string& name, const FormOf& form_of,
                  const std::string& names) -> decltype(form_of(name)) {
  if (name == "auto") return std::nullopt;
  const auto form = form_of(name);
  if (form) return form;
  throw ConfigError(
      fmt::format("--{}={}: must be \"auto\" (what the chat template shows) or one of {}", option,
                  name, names));
}

struct AnswerForms {
  std::optional<text::ToolCallForm> calls;
  std::optional<text::ReasoningForm> reasoning;
};

AnswerForms resolve_answer_forms(const ServeArguments& arguments) {
  return {resolve_form("tool-call-parser", arguments.tool_call_parser, text::tool_call_form_of,
                       text::names_of_tool_call_forms()),
          resolve_form("reasoning-parser", arguments.reasoning_parser, text::reasoning_form_of,
                       text::names_of_reasoning_forms())};
}

void say_answer_forms(const server::ServedModel& model) {
  if (!model.chat_template()) return;
  const bool has_calls = model.tool_call_form() != text::ToolCallForm::none;
  const bool has_reasoning = model.reasoning_form() != text::ReasoningForm::none;
  log::info("tool calls: {}; reasoning: {}",
            has_calls ? fmt::format("in the form {}", text::name_of(model.tool_call_form()))
                      : "no form is recognized in the chat template, so that they come back as "
                        "text (--tool-call-parser names a form)",
            has_reasoning ? fmt::format("in the form {}", text::name_of(model.reasoning_form()))
                          : "none (--reasoning-parser names a form)");
}

// The model that is served; it is opened again after a rank was lost. Loading an adapter waits
// until the model is open.
struct OpenedModel {
  std::mutex opening;
  std::unique_ptr<serve::InferenceModel> model;
};

void load_adapters(server::ServedModel& served, OpenedModel& opened,
                   const std::vector<NamedAdapter>& adapters, size_t most) {
  served.set_adapters(std::make_unique<server::AdapterRegistry>(
      [&opened, &served](const std::filesystem::path& folder) {
        const auto form = std::make_shared<const server::ChatForm>(served.form_of_adapter(folder));
        const std::lock_guard lock(opened.opening);
        return server::LoadedAdapter{opened.model->load_adapter(folder), form};
      },
      most));
  for (const auto& [name, folder] : adapters) {
    try {
      served.adapters().load(name, folder);
    } catch (const server::ApiError& error) {
      throw ConfigError(fmt::format("--adapter={}={}: {}", name, folder, error.what()));
    }
  }
}

void check_length(const serve::EngineOptions& options, const models::ModelFacts& facts) {
  if (options.max_model_len <= facts.positions) return;
  throw ConfigError(fmt::format("--max-model-len={}: the model supports only {} positions",
                                options.max_model_len, facts.positions));
}

void check_beams(const server::ServedModel& served, const serve::EngineOptions& options) {
  const int64_t beams = served.generation().beams.width;
  if (beams <= options.max_num_seqs) return;
  throw ConfigError(fmt::format(
      "--max-num-seqs={}: the model's settings ask for num_beams = {}; give at least this many, or "
      "--override-generation-config='{{\"num_beams\": 1}}'",
      options.max_num_seqs, beams));
}

// How the model is opened, also after a rank was lost.
struct Loading {
  std::unique_ptr<ModelSource> source;  // null once the folder is not needed any more
  models::ModelSpecification specification;
  ModelRanksConfig config;
  Strategy strategy;
  serve::WeightBits bits;
  std::vector<NamedAdapter> adapters;
  AnswerForms forms;

  std::unique_ptr<serve::InferenceModel> load(InferenceRanks& ranks) const {
    std::optional<ProgressLine> line;
    return open_model_over_ranks(specification, config, strategy, ranks, bits,
                                 [&](int64_t done, int64_t total) {
                                   if (!line) line.emplace("loading", 0, total, "tensors");
                                   line->update(done);
                                   if (done == total) line->finish();
                                 });
  }
};

void say_ready(const server::Server& server, const server::ServedModel& model,
               const serve::Engine& engine, Clock::duration taken) {
  if (!model.generates()) {
    const bool scores = model.labels().has_value();
    log::info(
        "serving {} on http://{} after {}: {}; longest text {} tokens; {} of memory in use\n"
        "           curl http://{}/{} -H 'Content-Type: application/json' -d "
        "'{{\"input\": [\"Hello\"]}}'",
        model.name(), server.address(), format_duration(taken),
        scores ? "labels of texts" : "embeddings of an encoder", format_count(model.max_length()),
        format_bytes(machine::resident_bytes()), server.address(),
        scores ? "classify" : "v1/embeddings");
    return;
  }
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
  say_answer_forms(model);
}

Loading resolve_loading(ServeArguments& arguments, const InferenceRanks& ranks) {
  Loading loading;
  loading.config = parse_flags<ModelRanksConfig>(arguments.flags);
  prepare(loading.config, ranks);
  resolve_options(arguments, loading.config.parallel.timeout);
  loading.forms = resolve_answer_forms(arguments);
  loading.bits = resolve_weight_bits(arguments.quantize);
  loading.source = std::make_unique<ModelSource>(arguments.model, loading.config.compute);
  if (arguments.served_name.empty()) arguments.served_name = loading.source->name();
  loading.specification = resolve_trained_model(loading.source->folder(), "serve");
  require_texts(loading.specification, "serve");
  check_length(arguments.engine, loading.specification.facts);
  loading.adapters = resolve_adapters(arguments, loading.specification);
  loading.strategy =
      resolve_model_ranks(loading.config.parallel, loading.specification.facts, ranks.size());
  return loading;
}

// Opens the model again, on new ranks. error: what the engine reported when it lost a rank.
std::unique_ptr<serve::InferenceModel> start_again(const Loading& loading, InferenceRanks& ranks,
                                                   server::Server& server,
                                                   const std::string& error) {
  const Clock::time_point start = Clock::now();
  const std::string cause = ranks.child_rank_failure().value_or(error);
  if (!ranks.can_restart_ranks()) throw CommError(cause);
  log::warn("{}: all requests have ended with an error; the engine is restarting", cause);
  ranks.disconnect();
  auto model = loading.load(ranks);
  server.resume(**model, model->ranks());
  log::info("serving again after {}", format_duration(Clock::now() - start));
  return model;
}

// Runs the server on the first rank.
void run_server(Loading& loading, const ServeArguments& arguments, InferenceRanks& ranks,
                Clock::time_point start) {
  const models::ModelFacts& facts = loading.specification.facts;
  OpenedModel opened;  // outlives the server and its requests
  const std::unique_ptr<serve::InferenceModel>& model = opened.model;
  std::optional<OpenedSpeculation> draft;  // outlives the engine
  server::ServedModel served(
      loading.source->folder(), arguments.served_name, facts.positions, facts.vocabulary,
      facts.causal,
      facts.scores > 0 ? std::optional(models::labels_of(loading.specification)) : std::nullopt,
      resolve_generation(arguments.generation, loading.source->folder(), facts.vocabulary));
  served.set_decoder_prompt(std::ssize(facts.decoder_prompt));
  served.set_forms(loading.forms.calls, loading.forms.reasoning);
  check_beams(served, arguments.engine);
  // Created before other threads start, because it takes over the stop signals; and before weights
  // are read, so that a port in use is reported at once.
  server::ServerOptions options_of_server = arguments.server;
  for (const auto& guard : {loading.source->guard_pid(), ranks.guard_pid()}) {
    if (guard) options_of_server.helpers.push_back(*guard);
  }
  server::Server server(options_of_server);
  opened.model = loading.load(ranks);
  // The folder is read once more only to restart ranks, or to load adapters with magnitudes (DoRA).
  const bool takes_adapters = !loading.adapters.empty() || arguments.server.api.adapter_loading;
  if (!ranks.can_restart_ranks() && !takes_adapters) loading.source.reset();
  load_adapters(served, opened, loading.adapters, arguments.max_adapters);
  serve::EngineOptions options = engine_options(*model, loading.config, arguments.engine);
  draft.emplace(
      open_speculation(arguments.speculation, loading.config, model->device(), loading.bits));
  options.speculation = draft->speculation;
  std::string loss;
  options.on_lost = [&](const std::string& error) {
    loss = error;
    server.engine_lost();
  };
  auto engine = std::make_unique<serve::Engine>(**model, facts, options, model->ranks());
  served.set_max_length(engine->options().max_model_len);
  const serve::Engine& serving = *engine;
  server.begin(served, std::move(engine));
  say_ready(server, served, serving, Clock::now() - start);
  while (server.wait() == server::Server::Event::lost) {
    const std::lock_guard lock(opened.opening);
    opened.model.reset();
    opened.model = start_again(loading, ranks, server, loss);
  }
  server.finish();
}

void serve_model(ServeArguments& arguments, InferenceRanks& ranks) {
  const Clock::time_point start = Clock::now();
  Loading loading = resolve_loading(arguments, ranks);
  if (ranks.is_first()) return run_server(loading, arguments, ranks, start);
  const auto model = loading.load(ranks);
  serve::follow(**model, loading.specification.facts, *model->ranks(), /*around_stage=*/{},
                [&](const std::filesystem::path& folder) { return model->load_adapter(folder); });
}

void add_server_options(CLI::App& command, ServeArguments& arguments) {
  server::ServerOptions& server = arguments.server;
  command
      .add_option("--host", server.host,
                  "Address to listen on; 0.0.0.0 listens on all addresses of this machine: set "
                  "--api-key-file too")
      ->capture_default_str();
  command.add_option("--port", server.port, "Port to listen on; 0: any free port")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  add_access_options(command, arguments.access);
  command.add_option("--served-name", arguments.served_name,
                     "Name of the model in requests [the folder's name]");
  command
      .add_option("--tool-call-parser", arguments.tool_call_parser,
                  "Form of the tool calls that the model writes: auto (what the chat template "
                  "shows), or one of " +
                      text::names_of_tool_call_forms())
      ->capture_default_str();
  command
      .add_option("--reasoning-parser", arguments.reasoning_parser,
                  "Form of the reasoning that the model writes before its answer: auto (what the "
                  "chat template shows), or one of " +
                      text::names_of_reasoning_forms())
      ->capture_default_str();
  command
      .add_option("--drain-timeout", arguments.drain_timeout,
                  "How long to wait for running requests when the server stops")
      ->capture_default_str();
}

void add_adapter_options(CLI::App& command, ServeArguments& arguments) {
  command
      .add_option("--adapter", arguments.adapters,
                  "Load an adapter of the model (LoRA or a prefix) from a peft folder; requests "
                  "whose model is "
                  "NAME use it. May be given several times")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  command.add_option("--max-adapters", arguments.max_adapters, "Maximum number of loaded adapters")
      ->capture_default_str();
  command.add_flag("--allow-adapter-loading", arguments.server.api.adapter_loading,
                   "Let clients load adapters from any folder of this machine, and unload them");
}

void add_engine_options(CLI::App& command, ServeArguments& arguments) {
  serve::EngineOptions& engine = arguments.engine;
  const auto add = [&](const char* name, int64_t& value, const char* help, int64_t minimum) {
    command.add_option(name, value, help)
        ->check(CLI::Range(minimum, int64_t{1} << 40).description(""))
        ->capture_default_str();
  };
  add("--max-model-len", engine.max_model_len,
      "Maximum length of a sequence in tokens, prompt and answer together; 0: the model's maximum, "
      "or what fits in memory",
      0);
  add("--max-num-seqs", engine.max_num_seqs, "Maximum number of requests that run at once", 1);
  add("--max-batch-tokens", engine.max_batch_tokens,
      "Maximum number of tokens in a step: larger steps process long prompts faster but delay "
      "other requests",
      1);
  add("--queue", engine.max_queue,
      "Maximum number of waiting requests; further ones get status 429", 1);
  command.add_option("--kv-bytes", arguments.kv_bytes,
                     "Memory for the KV cache, such as 2GiB [enough for the maximum number of "
                     "requests of maximum length, at most a quarter of the free memory]");
  add_key_value_type(command, engine.int8_key_values);
  add_rank_timeout(command, arguments.rank_timeout);
  command.add_flag("!--no-prefix-cache", engine.prefix_cache,
                   "Do not share the KV cache between requests that start with the same tokens");
  command.add_flag("--batch-invariant", engine.batch_invariant,
                   "Make each answer bit-identical whatever other requests run and however prompts "
                   "are cut into chunks; long prompts take longer");
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over the OpenAI API, until SIGTERM or Ctrl-C");
  find_model_of(
      *command
           ->add_option("model", arguments->model,
                        "A Hugging Face folder, for example a checkpoint; the name of a model that "
                        "was downloaded from the Hub, such as Qwen/Qwen3-8B; or a GGUF file")
           ->required());
  add_server_options(*command, *arguments);
  add_adapter_options(*command, *arguments);
  add_engine_options(*command, *arguments);
  add_override_option(*command, arguments->generation);
  add_quantize(*command, arguments->quantize);
  add_speculation(*command, arguments->speculation);
  command->allow_extras();
  add_ranks_option(*command, arguments->ranks);
  command->footer(help_of_keys<ModelRanksConfig>);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = key_flags<ModelRanksConfig>(*command);
    InferenceRanks ranks(arguments->ranks);
    exit_code = ranks.guarded([&] { serve_model(*arguments, ranks); });
  });
}

}  // namespace colossal::cli
