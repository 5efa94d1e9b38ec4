#include "colossal/serve/folder_quantization.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/checkpoint/new_path.h"
#include "colossal/checkpoint/packed_format.h"
#include "colossal/checkpoint/quantized_folder.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/io/json.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/product/gptq.h"
#include "colossal/serve/block_calibration.h"

namespace colossal::serve {
namespace {

// Returns the prefix of the names of a block's parameters, e.g. "blocks.3.".
std::string block_prefix(int64_t block) {
  return fmt::format("blocks.{}.", block);
}

using PartKind = nn::ModelPart::Kind;

bool is_in_out(const nn::Parameter& weight) {
  return weight.product == nn::WeightOrder::in_out;
}

int64_t outputs_of_matrix(const nn::Parameter& weight) {
  return is_in_out(weight) ? weight.shape.back() : weight.shape.end()[-2];
}

// Whether a parameter is quantized: weights of linear layers in blocks. Quantizing a layer of one
// output, such as the gate of a shared expert, would save nothing.
bool is_rounded(const nn::Parameter& parameter) {
  return parameter.product && parameter.part.kind == PartKind::block &&
         outputs_of_matrix(parameter) > 1;
}

int64_t inputs_of_matrix(const nn::Parameter& weight) {
  return is_in_out(weight) ? weight.shape.front() : weight.shape.back();
}

// Returns calibration rows, [1, sequence_length] int64 each, evenly spaced over the text.
std::vector<at::Tensor> calibration_rows(const data::Corpus& text,
                                         const FolderQuantization& options) {
  const int64_t length = options.sequence_length, tokens = text.num_tokens();
  const int64_t count = std::min(options.samples, tokens / length);
  if (count < 1) {
    throw ConfigError(
        fmt::format("{}: the text has {} tokens, but calibration needs rows of {}; give more text, "
                    "or shorter rows with --sequence-length",
                    text.setting(), tokens, length));
  }
  std::vector<at::Tensor> rows;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t begin = count == 1 ? 0 : (tokens - length) * row / (count - 1);
    const at::Tensor read = at::empty({1, length}, at::kLong);
    text.read(begin, {read.mutable_data_ptr<int64_t>(), static_cast<size_t>(length)});
    rows.push_back(read);
  }
  return rows;
}

class FolderQuantizer {
 public:
  FolderQuantizer(const models::ModelSpecification& specification,
                  const FolderQuantization& options)
      : specification_(specification),
        options_(options),
        source_(specification.weights),
        model_(models::build_model(specification, build_)),
        format_(specification.transformer.stored_in_out ? checkpoint::gptq_format()
                                                        : checkpoint::compressed_tensors_format()) {
    if (specification.facts.encoder_layers > 0 && options.calibration != Calibration::none) {
      throw ConfigError(
          "--calibrate for an encoder-decoder: calibration reads single texts, and an "
          "encoder-decoder needs pairs of texts; use --calibrate=none");
    }
    for (const nn::ParameterHandle& parameter : build_.parameters()) {
      if (is_rounded(*parameter)) add_quantized(*parameter);
    }
    format_->require_writable(quantized_);
    say_rows_with_one_scale();
  }

  void write(const std::filesystem::path& folder, const data::Corpus* text) {
    checkpoint::QuantizedFolder to(source_, folder, *format_, quantized_);
    if (options_.calibration != Calibration::none) embed(calibration_rows(*text, options_));
    for (int64_t block = 0; block < model_->num_blocks(); ++block) {
      write_block(block, to);
      if (options_.progress) options_.progress(block + 1, model_->num_blocks());
    }
    to.finish();
  }

  nlohmann::ordered_json config() const {
    nlohmann::ordered_json config =
        nlohmann::ordered_json::parse(io::read_file(source_.path() / "config.json"));
    config["quantization_config"] = format_->config(quantized_, whole_modules());
    return config;
  }

 private:
  TensorSlice slice_of(const nn::Parameter& parameter) const {
    return models::slice_in_model(specification_, parameter.name);
  }

  // Returns the names of the tensors in the model folder that hold a parameter: for a stack of
  // experts, one per expert.
  std::vector<std::string> tensors_of(const nn::Parameter& parameter) const {
    std::vector<std::string> names;
    for (const std::string& name : slice_of(parameter).names()) {
      names.push_back(checkpoint::find_weight(source_, name).entry->name);
    }
    return names;
  }

  ops::Quantization how_of(const nn::Parameter& weight) const {
    ops::Quantization how = options_.how;
    if (how.group > 0 && inputs_of_matrix(weight) % how.group != 0) how.group = 0;
    return how;
  }

  void add_quantized(const nn::Parameter& weight) {
    const ops::Quantization how = how_of(weight);
    for (const std::string& tensor : tensors_of(weight)) {
      const std::vector<int64_t>& shape = source_.find(tensor).entry->shape;
      const int64_t outputs = is_in_out(weight) ? shape[1] : shape[0];
      quantized_[tensor] = {.how = how, .outputs = outputs, .inputs = inputs_of_matrix(weight)};
    }
  }

  void say_rows_with_one_scale() const {
    std::set<int64_t> inputs;
    for (const auto& [tensor, weight] : quantized_) {
      if (weight.how != options_.how) inputs.insert(weight.inputs);
    }
    for (const int64_t count : inputs) {
      log::warn(
          "linear layers with {} inputs have one scale for each output, as {} inputs cannot be "
          "divided into groups of {}",
          count, count, options_.how.group);
    }
  }

  // Returns the modules with 2-d weights that are not quantized. Includes the head even if it is
  // tied to the token table.
  std::vector<std::string> whole_modules() const {
    constexpr std::string_view kWeight = ".weight";
    std::set<std::string> modules;
    const auto add = [&](const std::string& tensor) {
      if (tensor.ends_with(kWeight)) {
        modules.insert(tensor.substr(0, tensor.size() - kWeight.size()));
      }
    };
    for (const std::string& tensor : source_.names()) {
      if (source_.find(tensor).entry->shape.size() == 2 && !quantized_.contains(tensor)) {
        add(tensor);
      }
    }
    if (specification_.transformer.scores == 0) {
      add(models::slice_in_files(specification_, "head.weight").name);
    }
    return {modules.begin(), modules.end()};
  }

  BlockParameter read(const nn::ParameterHandle& parameter) const {
    const at::Tensor stored = checkpoint::read_parameter(source_, *parameter, slice_of(*parameter));
    const at::Tensor numbers = is_in_out(*parameter) ? stored.t().contiguous() : stored;
    return {.handle = parameter, .numbers = numbers.to(at::kFloat), .stored = stored.scalar_type()};
  }

  void give(const BlockParameter& parameter) const {
    const at::Tensor numbers = parameter.numbers.to(options_.type);
    parameter.handle->tensor = is_in_out(*parameter.handle) ? numbers.t().contiguous() : numbers;
  }

  // Computes the input of the first block for each calibration row.
  void embed(const std::vector<at::Tensor>& rows) {
    const auto each = [&](const auto& visit) {
      for (const nn::ParameterHandle& parameter : build_.parameters()) {
        if (parameter->part.kind == PartKind::embedding) visit(parameter);
      }
    };
    each([&](const nn::ParameterHandle& parameter) { give(read(parameter)); });
    for (const at::Tensor& row : rows) {
      streams_.push_back(model_->text_inputs()
                             .embed({row}, nn::make_step_context(1, row.size(1), at::kCPU))
                             .output());
    }
    each([](const nn::ParameterHandle& parameter) { parameter->tensor = at::Tensor(); });
  }

  at::Tensor run(int64_t block, const at::Tensor& stream) const {
    const nn::StepContext context = nn::make_step_context(1, stream.size(1), at::kCPU);
    return model_->run_blocks({block, block + 1}, {{stream}}, context).output();
  }

  BlockParameters read_block(int64_t block) const {
    const std::string prefix = block_prefix(block);
    BlockParameters parameters;
    for (const nn::ParameterHandle& parameter : build_.parameters()) {
      if (parameter->part != nn::ModelPart{PartKind::block, block}) continue;
      parameters.emplace(parameter->name.substr(prefix.size()), read(parameter));
    }
    return parameters;
  }

  void write_block(int64_t block, checkpoint::QuantizedFolder& to) {
    BlockParameters parameters = read_block(block);
    const bool calibrated = options_.calibration != Calibration::none;
    BlockInputs inputs;
    if (calibrated) {
      for (const auto& [name, parameter] : parameters) give(parameter);
      see(block, inputs);
    }
    if (options_.calibration == Calibration::awq) {
      scale_inputs(
          models::scaled_inputs(specification_.transformer, block), inputs,
          [&](const nn::Parameter& weight) { return how_of(weight); },
          specification_.transformer.norm_unit_offset, parameters);
    }
    for (auto& [name, parameter] : parameters) {
      if (is_rounded(*parameter.handle)) {
        round(parameter, inputs, to);
      } else if (options_.calibration == Calibration::awq) {
        change(parameter, to);
      }
    }
    if (!calibrated) return;
    for (const auto& [name, parameter] : parameters) give(parameter);
    for (at::Tensor& stream : streams_) stream = run(block, stream);
    for (const auto& [name, parameter] : parameters) parameter.handle->tensor = at::Tensor();
  }

  // Collects statistics of the inputs of the block's linear layers, before the block is quantized.
  void see(int64_t block, BlockInputs& inputs) {
    const nn::ProductInputListener listen(
        [&](const std::vector<nn::ParameterHandle>& weights, std::optional<int64_t> expert,
            const at::Tensor& rows) { inputs.add(weights, expert, rows); });
    for (const at::Tensor& stream : streams_) run(block, stream);
  }

  void change(const BlockParameter& parameter, checkpoint::QuantizedFolder& to) const {
    const std::vector<std::string> tensors = tensors_of(*parameter.handle);
    // AWQ changes norms and biases only, and experts have neither.
    if (tensors.size() > 1) return;
    to.change(tensors.front(), slice_of(*parameter.handle).rows, parameter.numbers);
  }

  // Quantizes a weight and writes its codes. Replaces its values by the dequantized ones, so that
  // later blocks see the quantized model's activations.
  void round(BlockParameter& weight, const BlockInputs& inputs, checkpoint::QuantizedFolder& to) {
    const std::vector<std::string> tensors = tensors_of(*weight.handle);
    const ops::Quantization how = how_of(*weight.handle);
    if (weight.numbers.dim() == 2) {
      const auto rounded = rounded_matrix(weight.numbers, how, inputs.find(weight.handle->name));
      to.write(tensors.front(), slice_of(*weight.handle).rows, rounded);
      weight.numbers = ops::dequantize(rounded, at::kFloat);
      return;
    }
    std::vector<int64_t> without_tokens;
    for (int64_t expert = 0; expert < weight.numbers.size(0); ++expert) {
      const auto* seen = inputs.find(weight.handle->name, expert);
      if (!seen) without_tokens.push_back(expert);
      const auto rounded = rounded_matrix(weight.numbers[expert], how, seen);
      to.write(tensors.at(static_cast<size_t>(expert)), {}, rounded);
      weight.numbers[expert].copy_(ops::dequantize(rounded, at::kFloat));
    }
    if (options_.calibration == Calibration::none || without_tokens.empty()) return;
    log::warn(
        "{}: experts {} got no tokens of the text; their weights are rounded to the nearest values",
        weight.handle->name, fmt::join(without_tokens, ", "));
  }

  ops::QuantizedMatrix rounded_matrix(const at::Tensor& numbers, const ops::Quantization& how,
                                      const ops::InputStatistics* seen) const {
    if (options_.calibration == Calibration::gptq && seen) {
      return ops::gptq(numbers, seen->hessian, how);
    }
    return ops::quantize(numbers, how);
  }

  const models::ModelSpecification& specification_;
  FolderQuantization options_;
  checkpoint::WeightFolder source_;
  nn::DenseBuilder build_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<checkpoint::PackedFormat> format_;
  checkpoint::QuantizedTensors quantized_;
  std::vector<at::Tensor> streams_;  // input of the next block, for each calibration row
};

void require_matrices_of_their_own(const models::ModelSpecification& specification) {
  if (!specification.transformer.clamped_gate) return;
  throw ConfigError(fmt::format(
      "{}: models of the family {} store the experts of a layer as one tensor [experts, in, out]. "
      "The formats of quantized folders that transformers reads, compressed-tensors and gptq, have "
      "no form for it. Use --quantize with generate, serve or evaluate to quantize the weights "
      "while loading; a published folder (quant_method = \"mxfp4\") is used as it is",
      specification.weights.string(), specification.transformer.family));
}

}  // namespace

void quantize_folder(const models::ModelSpecification& specification, const data::Corpus* text,
                     const FolderQuantization& options, const std::filesystem::path& folder,
                     const std::vector<std::pair<std::string, std::string>>& files) {
  checkpoint::require_new(folder);
  require_matrices_of_their_own(specification);
  checkpoint::WeightFolder(specification.weights).require_unquantized("round");
  const at::NoGradGuard no_grad;
  checkpoint::write_whole(folder, [&](const std::filesystem::path& temporary) {
    FolderQuantizer quantizer(specification, options);
    quantizer.write(temporary, text);
    for (const auto& [name, content] : files) {
      io::write_file_atomically(temporary / name, content);
    }
    io::write_file_atomically(temporary / "config.json", quantizer.config().dump(2) + "\n");
  });
}

}  // namespace colossal::serve
