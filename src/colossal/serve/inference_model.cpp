#include "colossal/serve/inference_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/checkpoint/model_weights.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/comm/world.h"
#include "colossal/io/huge_pages.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/meta_kernels.h"

namespace colossal::serve {
namespace {

// Of weights that rest on the device.
constexpr int64_t kBlockBytes = int64_t{64} << 20;

memory::ChunkOptions chunk_options(const InferenceOptions& options) {
  const bool moved = !options.tiers.parameters.all_on_device();
  return {.working = options.type,
          .chunk_bytes = moved ? options.chunk_bytes : kBlockBytes,
          .window_bytes = options.window_bytes,
          .tiers = options.tiers};
}

bool is_quantized(const nn::Parameter& parameter, const InferenceOptions& options) {
  return options.quantization.has_value() && (parameter.product || parameter.head);
}

// Those of which this is so, or not.
nn::ParameterList select(const nn::ParameterList& parameters, const InferenceOptions& options,
                         bool quantized) {
  nn::ParameterList selected;
  for (const nn::ParameterHandle& parameter : parameters) {
    if (is_quantized(*parameter, options) == quantized) selected.push_back(parameter);
  }
  return selected;
}

// Codes of one weight after another, in memory that is read fast.
class CodeBlocks {
 public:
  // codes [outputs, bytes], contiguous
  at::Tensor keep(const at::Tensor& codes) {
    constexpr int64_t kAlignment = 64;
    const int64_t bytes = codes.numel();
    if (!block_.defined() || used_ + bytes > block_.numel()) begin(std::max(bytes, kBlockBytes));
    at::Tensor kept = block_.narrow(0, used_, bytes).view(codes.sizes()).copy_(codes);
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return kept;
  }

 private:
  void begin(int64_t bytes) {
    block_ = at::empty({bytes}, at::kByte);
    io::advise_huge_pages(block_.mutable_data_ptr(), block_.nbytes());
    used_ = 0;
  }

  at::Tensor block_;
  int64_t used_ = 0;
};

// Logits lose more by few bits than what products of blocks do.
ops::Quantization of_head(ops::Quantization quantization) {
  if (quantization.type == ops::Quantization::Type::int4) quantization = {};
  return quantization;
}

void quantize(nn::Parameter& parameter, const at::Tensor& weights, const InferenceOptions& options,
              CodeBlocks& blocks) {
  const ops::Quantization quantization =
      parameter.head ? of_head(*options.quantization) : *options.quantization;
  const bool in_out = parameter.product == nn::WeightOrder::in_out;
  ops::QuantizedMatrix matrix = ops::quantize(in_out ? weights.t() : weights, quantization);
  matrix.type = options.type;
  matrix.codes = blocks.keep(matrix.codes);
  parameter.quantized = std::make_shared<const ops::QuantizedMatrix>(std::move(matrix));
}

void refuse_tiers(const InferenceOptions& options) {
  if (!options.quantization || options.tiers.parameters.all_on_device()) return;
  throw ConfigError(
      "--quantize with memory.offload_parameters: quantised weights rest on the device only; use "
      "one of the two");
}

}  // namespace

// The parameters of an adapter on the device, and the adapter made of them.
struct LoadedAdapter {
  nn::ParameterList parameters;
  std::unique_ptr<memory::ChunkEngine> chunks;
  nn::AdapterWeights weights;
};

// Products that are parts of one module share the first one's A.
std::map<std::string, nn::AdapterWeights::Product> products_of(
    const std::vector<adapters::Product>& products, const nn::ParameterList& parameters) {
  std::map<std::string, at::Tensor> tensors;
  for (const nn::ParameterHandle& parameter : parameters) {
    tensors[parameter->name] = parameter->tensor;
  }
  std::map<std::string, at::Tensor> downs;  // of modules
  std::map<std::string, nn::AdapterWeights::Product> made;
  for (const adapters::Product& product : products) {
    const auto own = tensors.find(product.name + ".lora_A.weight");
    if (own != tensors.end()) downs[product.module] = own->second;
    made[product.name] = {.down = downs.at(product.module),
                          .up = tensors.at(product.name + ".lora_B.weight")};
  }
  return made;
}

// One rank alone, on the device or, for a dry run, on meta.
struct InferenceModel::Parts {
  Parts(const models::ModelSpecification& specification, const InferenceOptions& options,
        std::unique_ptr<comm::World> alone, at::Device device, const memory::OrderOfStages& order)
      : world(std::move(alone)),
        context(*world, Strategy{}, device),
        build(nn::make_dense_attention, options.quantization ? 0 : options.table_rows),
        base(specification),
        model(models::build_model(specification, build)),
        weights(select(build.parameters(), options, /*quantized=*/false), context,
                chunk_options(options), order) {}

  std::unique_ptr<comm::World> world;
  ParallelContext context;
  nn::DenseBuilder build;
  models::ModelSpecification base;  // of which adapters are read
  std::unique_ptr<models::LanguageModel> model;
  memory::ChunkEngine weights;
  uint64_t last_adapter = 0;
};

InferenceModel::InferenceModel(const models::ModelSpecification& specification,
                               const InferenceOptions& options) {
  refuse_tiers(options);
  memory::OrderOfStages order;
  if (!options.tiers.parameters.all_on_device()) order = record_order(specification, options);
  parts_ = std::make_unique<Parts>(specification, options, comm::single_world(options.device),
                                   options.device, order);
  const auto total = static_cast<int64_t>(parts_->build.parameters().size());
  CodeBlocks blocks;
  int64_t asked = 0;  // each tensor is asked for to check the folder, and again to be read
  const auto tell = [&] {
    if (options.progress) options.progress(std::clamp<int64_t>(++asked - total, 0, total), total);
  };
  checkpoint::read_model(
      specification, parts_->weights,
      {.parameters = select(parts_->build.parameters(), options, /*quantized=*/true),
       .take = [&](nn::Parameter& parameter,
                   const at::Tensor& weights) { quantize(parameter, weights, options, blocks); }},
      tell);
  parts_->weights.begin_inference();
}

InferenceModel::~InferenceModel() = default;

// By a dry run of one forward pass: all are the same.
memory::OrderOfStages InferenceModel::record_order(const models::ModelSpecification& specification,
                                                   const InferenceOptions& options) {
  ops::register_meta_kernels();
  const at::NoGradGuard no_grad;
  Parts dry(specification, options, comm::dry_world(0, 1), at::kMeta, {});
  const at::Tensor token = at::empty({1, 1}, at::TensorOptions(at::kLong).device(at::kMeta));
  dry.weights.begin_evaluation();
  dry.model->logits(token, nn::make_step_context(1, 1, at::kMeta), /*last_only=*/true);
  dry.weights.end_evaluation();
  return dry.weights.order_of_use();
}

// The model is described once more, with the adapter's parameters, of which alone there is memory.
std::shared_ptr<const nn::AdapterWeights> InferenceModel::load_adapter(
    const std::filesystem::path& folder) {
  const models::ModelSpecification adapted = models::with_adapter(parts_->base, folder);
  if (adapted.facts.kept_features != parts_->base.facts.kept_features) {
    throw ConfigError(fmt::format(
        "{}: the adapter changes kv_b_proj, which makes keys and values of latents, and latents "
        "are "
        "what is kept here, for all requests alike; merge it into the model's weights with "
        "colossal convert --merge-adapter, or adapt other products",
        folder.string()));
  }
  nn::DenseBuilder build;
  models::build_model(adapted, build);
  const auto loaded = std::make_shared<LoadedAdapter>();
  loaded->parameters = adapters::split_parameters(build.parameters()).of_adapter;
  loaded->chunks = std::make_unique<memory::ChunkEngine>(loaded->parameters, parts_->context,
                                                         memory::ChunkOptions{.working = type()});
  checkpoint::read_weights_of_file(
      folder / adapters::kWeightsFile, loaded->parameters, *loaded->chunks,
      [&](const std::string& name) { return models::slice_in_files(adapted, name); });
  loaded->chunks->begin_inference();
  loaded->weights = {.number = ++parts_->last_adapter,
                     .scale = adapted.adapter->settings.scale(),
                     .products = products_of(adapted.adapter->products, loaded->parameters)};
  return {loaded, &loaded->weights};
}

models::LanguageModel& InferenceModel::operator*() const {
  return *parts_->model;
}

int64_t InferenceModel::weight_bytes() const {
  int64_t bytes = 0;
  for (const memory::Tier tier : {memory::Tier::device, memory::Tier::host, memory::Tier::nvme}) {
    bytes += parts_->weights.state_bytes(tier).parameters;
  }
  for (const nn::ParameterHandle& parameter : parts_->build.parameters()) {
    if (parameter->quantized) bytes += parameter->quantized->bytes();
  }
  return bytes;
}

at::ScalarType InferenceModel::type() const {
  return parts_->weights.options().working;
}

std::string InferenceModel::describe_offload() const {
  const auto resting = [&](memory::Tier tier) {
    return parts_->weights.state_bytes(tier).parameters;
  };
  const int64_t on_nvme = resting(memory::Tier::nvme);
  if (on_nvme + resting(memory::Tier::host) == 0) return "";
  std::string text = fmt::format("weights rest: {} on the device, {} on the host",
                                 format_bytes(resting(memory::Tier::device)),
                                 format_bytes(resting(memory::Tier::host)));
  if (on_nvme > 0)
    text += fmt::format(", {} on nvme in {}", format_bytes(on_nvme),
                        parts_->weights.options().tiers.nvme_path);
  text += fmt::format("; for their uses at most {} of them are on the device",
                      format_bytes(parts_->weights.fetched_peak_bytes()));
  if (on_nvme > 0) {
    text += fmt::format(", and {} on the way to it",
                        format_bytes(parts_->weights.options().window_bytes / 2));
  }
  return text;
}

}  // namespace colossal::serve
