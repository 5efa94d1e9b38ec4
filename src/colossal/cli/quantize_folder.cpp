#include "colossal/cli/quantize_folder.h"

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/progress.h"
#include "colossal/base/units.h"
#include "colossal/cli/inference_arguments.h"
#include "colossal/cli/model_text.h"
#include "colossal/job/run_config.h"
#include "colossal/serve/folder_quantization.h"

namespace colossal::cli {
namespace {

constexpr int64_t kMostCalibrated = 2048;  // default tokens of a row

struct QuantizingConfig : InferenceConfig {
  DataConfig data;  // how files become text
};

void describe(ConfigSchema& schema, QuantizingConfig& config) {
  describe(schema, static_cast<InferenceConfig&>(config));
  describe_text(schema, config.data);
}

serve::Calibration resolve_calibration(const std::string& name) {
  if (name == "none") return serve::Calibration::none;
  if (name == "gptq") return serve::Calibration::gptq;
  if (name == "awq") return serve::Calibration::awq;
  throw ConfigError(fmt::format("--calibrate={}: must be none, gptq or awq", name));
}

ops::Quantization resolve_stored(const QuantizeFolderArguments& arguments) {
  if (arguments.type == "int8-dynamic") {
    throw ConfigError(
        "--quantize=int8-dynamic: inputs are quantized when the model runs, not in the folder; "
        "convert with --quantize=int8, and give --quantize=int8-dynamic to generate or serve");
  }
  if (arguments.type == "auto" || arguments.type == "none") {
    throw ConfigError(fmt::format("--quantize={}: must be int8, int4 or fp8 to convert a folder",
                                  arguments.type));
  }
  ops::Quantization how =
      serve::resolve_quantization(arguments.type, arguments.group, kQuantizeNames);
  if (arguments.symmetric) how.zero_point = false;
  return how;
}

}  // namespace

void add_quantize_folder(CLI::App& command, QuantizeFolderArguments& arguments) {
  command.add_option(
      "--quantize", arguments.type,
      "Write a folder whose linear layers have quantized weights: int8, int4 or fp8, in the "
      "compressed-tensors format (GPT-2: gptq), which transformers and vLLM read");
  command.add_option("--quantize-group", arguments.group,
                     "How many inputs share a scale, as with generate [int8, fp8: all inputs of an "
                     "output; int4: 64]");
  command.add_flag("--symmetric", arguments.symmetric,
                   "With int4: no zero points (int8 and fp8 never have them). Some readers of the "
                   "format need this; the weights are slightly less accurate");
  command
      .add_option("--calibrate", arguments.calibrate,
                  "How weights are rounded: none (each to the nearest value), gptq (later weights "
                  "compensate for the rounding errors of earlier ones) or awq (inputs with large "
                  "activations get finer weights); gptq and awq run the model on --data")
      ->capture_default_str();
  command
      .add_option("--data", arguments.text,
                  "The files of the calibration text: paths or glob patterns, as in data.train")
      ->type_name("FILE");
  command.add_option(
      "--tokenizer", arguments.tokenizer,
      "The tokenizer: \"bytes\", a tokenizer.json, or a folder with one [the model's]");
  command
      .add_option("--samples", arguments.samples,
                  "Number of rows of the text to calibrate with, spread evenly over it")
      ->capture_default_str();
  command.add_option("--sequence-length", arguments.sequence_length,
                     fmt::format("Tokens per row [the model's maximum length, at most {}]",
                                 format_count(kMostCalibrated)));
}

std::string help_of_quantizing() {
  return help_of_keys<QuantizingConfig>();
}

void prepare_quantize_folder(const QuantizeFolderArguments& arguments) {
  const bool calibrates = resolve_calibration(arguments.calibrate) != serve::Calibration::none;
  if (arguments.type.empty()) {
    if (calibrates || arguments.group || arguments.symmetric || !arguments.text.empty()) {
      throw ConfigError(
          "--calibrate, --data, --symmetric and --quantize-group without --quantize: add "
          "--quantize=int4, int8 "
          "or fp8");
    }
    if (!arguments.flags.empty()) {
      throw ConfigError(
          fmt::format("{} without --quantize: this option works only with it; add --quantize, or "
                      "leave the option out",
                      fmt::join(arguments.flags, " ")));
    }
    return;
  }
  const ops::Quantization how = resolve_stored(arguments);
  if (calibrates && arguments.text.empty()) {
    throw ConfigError(
        fmt::format("--calibrate={} without --data: give text that is typical of the model's use",
                    arguments.calibrate));
  }
  if (!calibrates && !arguments.text.empty()) {
    throw ConfigError("--data without --calibrate: add --calibrate=gptq or --calibrate=awq");
  }
  if (calibrates && how.type == ops::Quantization::Type::fp8) {
    throw ConfigError(
        fmt::format("--calibrate={} with --quantize=fp8: gptq and awq work for integers only; use "
                    "--quantize=int8 or int4, or leave --calibrate out",
                    arguments.calibrate));
  }
  if (arguments.samples < 1) {
    throw ConfigError(fmt::format("--samples={}: must be 1 or more", arguments.samples));
  }
  if (arguments.sequence_length.value_or(1) < 1) {
    throw ConfigError(
        fmt::format("--sequence-length={}: must be 1 or more", *arguments.sequence_length));
  }
  prepare(parse_flags<QuantizingConfig>(arguments.flags));
}

void quantize_folder(const QuantizeFolderArguments& arguments, const std::string& model,
                     const std::filesystem::path& destination,
                     const std::vector<std::pair<std::string, std::string>>& files) {
  const auto config = parse_flags<QuantizingConfig>(arguments.flags);
  const models::ModelSpecification specification = resolve_trained_model(model, "quantize");
  serve::FolderQuantization options{
      .how = resolve_stored(arguments),
      .calibration = resolve_calibration(arguments.calibrate),
      .samples = arguments.samples,
      .sequence_length =
          resolve_sequence_length(arguments.sequence_length, kMostCalibrated, specification.facts),
      .type = resolve_compute_type(specification, config)};
  if (specification.facts.experts > 0 && options.how.type == ops::Quantization::Type::int4 &&
      options.how.zero_point) {
    log::warn(
        "transformers opens no folder of a model with experts in int4 with zero points; "
        "--symmetric leaves them out");
  }
  std::optional<data::Corpus> text;
  if (options.calibration != serve::Calibration::none) {
    text =
        open_model_text(arguments.text, arguments.tokenizer.empty() ? model : arguments.tokenizer,
                        specification.facts, config.data, config.threads);
  }
  ProgressLine progress("quantizing", 0, specification.facts.layers, "blocks");
  options.progress = [&](int64_t done, int64_t) { progress.update(done); };
  serve::quantize_folder(specification, text ? &*text : nullptr, options, destination, files);
  progress.finish();
}

}  // namespace colossal::cli
