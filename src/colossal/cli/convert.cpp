#include "colossal/base/error.h"
#include "colossal/checkpoint/gguf_conversion.h"
#include "colossal/checkpoint/merged_folder.h"
#include "colossal/cli/command.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/model_source.h"
#include "colossal/cli/quantize_folder.h"
#include "colossal/cli/temporary_folder.h"
#include "colossal/io/file.h"
#include "colossal/text/tokenizer_files.h"

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

// Uses the adapter's tokenizer if there is one: it may have another chat template.
text::TokenizerFiles files_beside_weights(const std::string& model, const std::string& adapter) {
  text::TokenizerFiles files;
  const std::filesystem::path tokenizer = tokenizer_folder(model, adapter);
  if (std::filesystem::exists(tokenizer / text::kTokenizerFile)) {
    files = text::read_tokenizer_files(tokenizer / text::kTokenizerFile);
  }
  constexpr const char* kGenerationFile = "generation_config.json";
  if (std::filesystem::exists(std::filesystem::path(model) / kGenerationFile)) {
    files.emplace_back(kGenerationFile,
                       io::read_file(std::filesystem::path(model) / kGenerationFile));
  }
  return files;
}

void write_merged(const ConvertArguments& arguments, const std::filesystem::path& folder) {
  checkpoint::write_merged_folder(
      resolve_trained_model(arguments.source, "merge an adapter into", arguments.adapter), folder,
      files_beside_weights(arguments.source, arguments.adapter));
}

// A GGUF file is written from a merged folder in $TMPDIR, whose tensors have the source's types.
void merge_adapter(const ConvertArguments& arguments, const std::string& to,
                   std::optional<io::GgufType> type) {
  if (to == "gguf") {
    const TemporaryFolder temporary;
    write_merged(arguments, temporary.path() / "merged");
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
  write_merged(arguments, arguments.destination);
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
  const auto files = files_beside_weights(source.folder(), arguments.adapter);
  if (arguments.adapter.empty()) {
    return quantize_folder(arguments.quantize, source.folder(), arguments.destination, files);
  }
  const TemporaryFolder temporary;
  const std::filesystem::path merged = temporary.path() / "merged";
  checkpoint::write_merged_folder(
      resolve_trained_model(source.folder(), "merge an adapter into", arguments.adapter), merged,
      files);
  quantize_folder(arguments.quantize, merged, arguments.destination, files);
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
    arguments->quantize.flags = command->remaining();
    convert(*arguments);
  });
}

}  // namespace colossal::cli
