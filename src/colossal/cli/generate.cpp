#include <cstdio>
#include <memory>

#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/comm/world.h"
#include "colossal/serve/generate.h"
#include "colossal/serve/model_folder.h"
#include "colossal/text/streaming_decoder.h"
#include "colossal/text/tokenizer.h"

namespace colossal::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  serve::GenerateOptions options;
  QuantizeArguments quantize;
  std::vector<std::string> flags;  // --section.key=value
};

void generate(const GenerateArguments& arguments) {
  const auto config = parse_flags<InferenceConfig>(arguments.flags);
  const auto quantization = resolve_quantization(arguments.quantize);
  prepare(config);
  const models::ModelSpecification specification =
      resolve_trained_model(arguments.model, "generate");
  const auto tokenizer = text::make_tokenizer(arguments.model);
  serve::GenerateOptions options = arguments.options;
  options.device = comm::device_alone("auto");
  options.end_tokens = serve::end_tokens(arguments.model, *tokenizer);
  const auto model = open_model(specification, config, options.device, quantization);

  using Begins = text::StreamingDecoder::Begins;
  text::StreamingDecoder decoder(
      *tokenizer, arguments.prompt.empty() ? Begins::with_text : Begins::after_prompt);
  const auto write = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  write(arguments.prompt);
  serve::generate(**model, specification.facts, tokenizer->encode_prompt(arguments.prompt), options,
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
  add_quantize(*command, arguments->quantize);
  command->allow_extras();
  command->footer(help_of_keys<InferenceConfig>);
  command->callback([arguments, command] {
    arguments->flags = command->remaining();
    generate(*arguments);
  });
}

}  // namespace colossal::cli
