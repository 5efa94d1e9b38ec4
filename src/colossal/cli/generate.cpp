#include <ATen/Parallel.h>

#include <cstdio>
#include <memory>

#include "colossal/base/machine.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/cli/command.h"
#include "colossal/comm/world.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/cpu_features.h"
#include "colossal/serve/generate.h"
#include "colossal/text/streaming_decoder.h"
#include "colossal/text/tokenizer.h"

namespace colossal::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  serve::GenerateOptions options;
};

void generate(const GenerateArguments& arguments) {
  at::set_num_threads(machine::available_cores());
  const models::ModelSpecification specification = models::resolve_model({.path = arguments.model});
  if (specification.weights.empty()) {
    throw ConfigError(
        fmt::format("{} holds no model.safetensors to generate with", arguments.model));
  }
  const auto tokenizer = text::make_tokenizer(arguments.model);
  const c10::Device device = comm::device_alone("auto");
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);
  checkpoint::load_for_inference(
      specification.weights, build.parameters(),
      [&](const std::string& name) { return models::hugging_face_name(specification, name); },
      device.is_cuda() || ops::has_bf16_instructions() ? at::kBFloat16 : at::kFloat, device);
  serve::GenerateOptions options = arguments.options;
  options.device = device;
  options.end_of_text = tokenizer->end_of_text();

  text::StreamingDecoder decoder(*tokenizer);
  const auto write = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  write(arguments.prompt);
  serve::generate(*model, specification.facts, tokenizer->encode(arguments.prompt), options,
                  [&](int32_t token) { write(decoder.push(token)); });
  write(decoder.flush() + "\n");
}

}  // namespace

void add_generate(CLI::App& app, int&) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a text with a model, token by token");
  command->add_option("model", arguments->model, "a Hugging Face folder, for example a checkpoint")
      ->required();
  command->add_option("--prompt", arguments->prompt, "text to continue")->required();
  serve::GenerateOptions& options = arguments->options;
  command->add_option("--max-new-tokens", options.max_new_tokens, "most tokens to add")
      ->capture_default_str();
  command
      ->add_option("--temperature", options.sampling.temperature, "0: always the most likely token")
      ->capture_default_str();
  command->add_option("--top-k", options.sampling.top_k, "draw from the k most likely; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options.sampling.top_p,
                   "draw from the fewest whose probabilities reach p")
      ->capture_default_str();
  command->add_option("--seed", options.sampling.seed, "the same seed draws the same text")
      ->capture_default_str();
  command->callback([arguments] { generate(*arguments); });
}

}  // namespace colossal::cli
