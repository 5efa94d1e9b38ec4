#include <algorithm>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/checkpoint/gguf_conversion.h"
#include "colossal/checkpoint/merged_folder.h"
#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/quantize_folder.h"
#include "colossal/cli/temporary_folder.h"
#include "colossal/io/json.h"
#include "colossal/text/model_folder.h"
#include "colossal/text/taught_text.h"

namespace colossal::cli {
namespace {

struct ConvertArguments {
  std::string source, destination;
  std::string to;    // empty: chosen by the destination's name
  std::string type;  // empty: the default of the destination's format
  std::string adapter;
  QuantizeFolderArguments quantize;
};

std::optional<io::GgufType> resolve_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const auto type = io::find_gguf_type(name)) return type;
  throw ConfigError(
      fmt::format("--type={}: unknown type; choose one of {}", name, io::gguf_type_names()));
}

// Writes the model with the adapter merged into its weights. The folder names the end tokens that
// the adapter was taught.
void write_merged(const ConvertArguments& arguments, const std::string& source,
                  const std::filesystem::path& folder) {
  const models::ModelSpecification specification =
      resolve_trained_model(source, "merge an adapter into", arguments.adapter);
  const text::ModelFolder from(source, arguments.adapter);
  text::TokenizerFiles files = from.files();
  nlohmann::json changed = nlohmann::json::object();
  if (specification.transformer.scores == 0 && text::find_file(files, text::kTokenizerFile)) {
    const auto tokenizer = from.tokenizer();
    std::vector<int32_t> ends = from.end_tokens(*tokenizer);
    std::ranges::stable_partition(ends,
                                  [&](int32_t token) { return token == tokenizer->end_of_text(); });
    nlohmann::json config = io::read_json(std::filesystem::path(source) / "config.json");
    text::set_end_tokens(&config, files, ends, *tokenizer);
    changed = {{"eos_token_id", config.at("eos_token_id")}};
  }
  checkpoint::write_merged_folder(specification, folder, files, changed);
}

// A GGUF file is written from a merged folder in $TMPDIR, whose tensors have the source's types.
void merge_adapter(const ConvertArguments& arguments, const std::string& to,
                   std::optional<io::GgufType> type) {
  if (to == "gguf") {
    const TemporaryFolder temporary;
    write_merged(arguments, arguments.source, temporary.path() / "merged");
    checkpoint::hf_to_gguf(temporary.path() / "merged", arguments.destination,
                           type.value_or(io::GgufType::bf16));
    return;
  }
  if (type) {
    throw ConfigError(
        fmt::format("--type={} with --merge-adapter: a folder keeps the types of its source; leave "
                    "--type out, or write a GGUF file (--to=gguf)",
                    arguments.type));
  }
  write_merged(arguments, arguments.source, arguments.destination);
}

// Quantizes a folder or a GGUF file; merges the adapter first, if there is one.
void quantize(const ConvertArguments& arguments, const std::string& to,
              std::optional<io::GgufType> type) {
  if (to == "gguf" || type) {
    throw ConfigError(
        fmt::format("--quantize with {}: --quantize writes a folder; for a quantized GGUF file use "
                    "--type=q8_0, q4_0, q4_k or q6_k",
                    type ? "--type=" + arguments.type
                         : "a destination in GGUF (--to=gguf, or a name that ends in .gguf)"));
  }
  const ModelSource source(arguments.source, "fp32");
  if (arguments.adapter.empty()) {
    return quantize_folder(arguments.quantize, source.folder(), arguments.destination,
                           text::ModelFolder(source.folder()).files());
  }
  const TemporaryFolder temporary;
  const std::filesystem::path merged = temporary.path() / "merged";
  write_merged(arguments, source.folder(), merged);
  quantize_folder(arguments.quantize, merged, arguments.destination,
                  text::ModelFolder(merged).files());
}

void convert(const ConvertArguments& arguments) {
  const auto type = resolve_type(arguments.type);
  const std::string to = !arguments.to.empty()            ? arguments.to
                         : is_gguf(arguments.destination) ? "gguf"
                                                          : "hf";
  if (to != "gguf" && to != "hf") {
    throw ConfigError(
        fmt::format("--to={}: must be \"hf\" (a Hugging Face folder) or \"gguf\"", to));
  }
  prepare_quantize_folder(arguments.quantize);
  if (!std::filesystem::exists(arguments.source)) {
    throw ConfigError(fmt::format("{}: no such file or folder", arguments.source));
  }
  if (!arguments.quantize.type.empty()) return quantize(arguments, to, type);
  if (!arguments.adapter.empty()) return merge_adapter(arguments, to, type);
  const bool from_folder = std::filesystem::is_directory(arguments.source);
  if (from_folder == (to == "hf")) {
    throw ConfigError(
        fmt::format("{} is {} already: a folder can be converted to GGUF (--to=gguf) or quantized "
                    "(--quantize), and a GGUF file can be converted to a folder (--to=hf)",
                    arguments.source, from_folder ? "a folder" : "a file"));
  }
  if (from_folder) {
    checkpoint::hf_to_gguf(arguments.source, arguments.destination,
                           type.value_or(io::GgufType::bf16));
  } else {
    checkpoint::gguf_to_hf(arguments.source, arguments.destination, type);
  }
}

}  // namespace

void add_convert(CLI::App& app, int&) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand("convert",
                                         "Convert a Hugging Face folder to a GGUF file or back, "
                                         "merge a LoRA adapter into a model, or quantize a folder");
  find_model_of(
      *command
           ->add_option("source", arguments->source,
                        "A Hugging Face folder, for example a checkpoint; the name of a model that "
                        "was downloaded from the Hub, such as Qwen/Qwen3-8B; or a GGUF file")
           ->required());
  command
      ->add_option("destination", arguments->destination,
                   "The file or folder to write; it must not exist yet")
      ->required();
  command->add_option("--to", arguments->to,
                      "hf or gguf [gguf if the destination's name ends so, else hf]");
  command->add_option("--type", arguments->type,
                      "The type of weight matrices: " + io::gguf_type_names() +
                          " [gguf: bf16; hf: the type in the file, or f32 if that is quantized]");
  find_model_of(*command
                     ->add_option("--merge-adapter", arguments->adapter,
                                  "Add the LoRA adapter in this folder to the weights that are "
                                  "written, to a folder or a GGUF file")
                     ->type_name("DIR"));
  add_quantize_folder(*command, arguments->quantize);
  command->allow_extras();
  command->footer(help_of_quantizing);
  command->callback([arguments, command] {
    arguments->quantize.flags = key_flags<InferenceConfig>(*command);
    convert(*arguments);
  });
}

}  // namespace colossal::cli
