#include "colossal/serve/inference_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/checkpoint/adapter_merge.h"
#include "colossal/checkpoint/model_weights.h"
#include "colossal/checkpoint/weights.h"
#include "colossal/comm/world.h"
#include "colossal/io/huge_pages.h"
#include "colossal/models/assembly.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/nn/held_runs.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/collectives.h"

namespace colossal::serve {
namespace {

// Bytes of a chunk of weights that are stored on the device, and of a block of quantized codes.
constexpr int64_t kBlockBytes = int64_t{64} << 20;

memory::ChunkOptions chunk_options(const InferenceOptions& options) {
  const bool moved = !options.tiers.parameters.all_on_device();
  return {.working = options.type,
          .chunk_bytes = moved ? options.chunk_bytes : kBlockBytes,
          .window_bytes = options.window_bytes,
          .tiers = options.tiers};
}

// Returns whether a parameter is stored quantized.
using InFewBits = std::function<bool(const nn::Parameter& parameter)>;

// Returns the parameters for which in_few_bits() returns `quantized`.
nn::ParameterList select(const nn::ParameterList& parameters, const InFewBits& in_few_bits,
                         bool quantized) {
  nn::ParameterList selected;
  for (const nn::ParameterHandle& parameter : parameters) {
    if (in_few_bits(*parameter) == quantized) selected.push_back(parameter);
  }
  return selected;
}

// Returns a key that is the same for linear layers that are computed together because they read the
// same input. All of these layers are quantized, or none.
std::string input_of(const std::string& parameter) {
  const std::string product = parameter.substr(0, parameter.rfind('.'));
  const size_t name = product.rfind('.') + 1;
  for (const std::string_view end : {"query", "key", "value", "query_down", "key_value_down"}) {
    if (product.substr(name) == end) return product.substr(0, name) + "qkv";
  }
  for (const std::string_view end : {"gate", "up"}) {  // stacks of experts
    if (product.substr(name) == end) return product.substr(0, name) + "gate_up";
  }
  for (const std::string_view end : {"_gate", "_up"}) {
    if (product.ends_with(end)) return product.substr(0, product.size() - end.size()) + "_gate_up";
  }
  return product;
}

// Returns the names of the parameters that the folder stores quantized in a format in which linear
// layers can compute.
std::set<std::string> names_in_few_bits(const models::ModelSpecification& specification) {
  const checkpoint::WeightFolder folder(specification.weights);
  std::set<std::string> held, mixed;
  if (folder.form().method.empty()) return held;
  nn::DenseBuilder build;
  models::build_model(specification, build);
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    if (!parameter->product) continue;
    const TensorSlice slice = models::slice_in_model(specification, parameter->name);
    const bool in_few_bits = checkpoint::stored_quantization(folder, *parameter, slice).has_value();
    in_few_bits ? held.insert(parameter->name) : mixed.insert(input_of(parameter->name));
  }
  std::erase_if(held, [&](const std::string& name) { return mixed.contains(input_of(name)); });
  return held;
}

// Stores the codes of quantized weights one after another in large blocks of memory. Huge pages
// make them faster to read.
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

// Returns the scales in the narrowest dtype that represents all of them exactly.
at::Tensor down_projected(const at::Tensor& scales) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor narrow = scales.to(type);
    if (narrow.to(at::kFloat).equal(scales)) return narrow;
  }
  return scales;
}

// Quantization to 4 bits hurts the output head more than the blocks: the head then gets the
// default, int8.
ops::Quantization of_head(ops::Quantization quantization) {
  if (quantization.type == ops::Quantization::Type::int4) quantization = {};
  return quantization;
}

// Whether the parameter has a matrix for each expert.
bool is_stack(const nn::Parameter& parameter) {
  return parameter.shape.size() > 2;
}

// Returns which dim of the weight of a linear layer, or of a stack of them, is that of the inputs.
size_t input_dim(const nn::Parameter& parameter) {
  return parameter.shape.size() - (parameter.product == nn::WeightOrder::in_out ? 2 : 1);
}

int64_t num_inputs(const nn::Parameter& parameter) {
  return parameter.shape[input_dim(parameter)];
}

// Returns the inputs that this rank holds.
std::vector<Range> inputs_here(const nn::Parameter& parameter) {
  if (parameter.placement.held.empty()) return {{0, num_inputs(parameter)}};
  return parameter.placement.held[input_dim(parameter)];
}

bool has_all_inputs(const nn::Parameter& parameter) {
  const std::vector<Range> here = inputs_here(parameter);
  return here.size() == 1 && here.front().size() == num_inputs(parameter);
}

// Throws ConfigError if a quantization group would be divided between ranks. The codes must be
// those of a single rank that holds all inputs.
void refuse_cut_groups(const nn::Parameter& parameter, int64_t group) {
  for (const Range& run : inputs_here(parameter)) {
    if (run.begin % group == 0 && (run.end % group == 0 || run.end == num_inputs(parameter))) {
      continue;
    }
    throw ConfigError(fmt::format(
        "--quantize-group={}: the ranks of parallel.{} share the {} inputs of {}, and this rank "
        "has inputs {} to {}, so a group would be split between two ranks; use a group size that "
        "divides these ranges, or --quantize=int8 with --quantize-group=0",
        group, is_stack(parameter) ? "expert_tp" : "tp", num_inputs(parameter), parameter.name,
        run.begin, run.end - 1));
  }
}

// Returns [outputs, 2] fp32: the minimum and the maximum of each output's weights, and of 0, over
// the ranks that share the output's inputs.
at::Tensor extremes_over_ranks(const at::Tensor& weights, const comm::Group& ranks) {
  const at::Tensor numbers = weights.to(at::kFloat);
  const at::Tensor found =
      at::stack({numbers.amin(1).neg(), numbers.amax(1)}, 1).clamp_min(0).contiguous();
  parallel::max_over_ranks(found.view(-1), ranks);
  return at::stack({found.select(1, 0).neg(), found.select(1, 1)}, 1).contiguous();
}

// Returns the ranks that share the inputs of a parameter's outputs.
const comm::Group& sharing_inputs(const nn::Parameter& parameter, const ParallelContext& context) {
  return is_stack(parameter) ? context.expert_parts_group() : context.group(Axis::tp);
}

ops::GroupScales choose_scales(const nn::Parameter& parameter, const at::Tensor& weight,
                               const ops::Quantization& how, const ParallelContext& context) {
  if (has_all_inputs(parameter) || how.group > 0) return ops::choose_scales(weight, how);
  return ops::choose_scales(weight, how,
                            extremes_over_ranks(weight, sharing_inputs(parameter, context)));
}

// A matrix [out, in] that was read. scales, zeros: undefined if the folder does not store them.
struct MatrixRead {
  at::Tensor numbers, scales, zeros;
};

std::shared_ptr<const ops::QuantizedMatrix> quantize(
    const nn::Parameter& parameter, const MatrixRead& read, const ops::Quantization& how,
    const InferenceOptions& options, const ParallelContext& context, CodeBlocks& blocks) {
  ops::GroupScales scales;
  if (read.scales.defined()) {
    scales.scales = down_projected(read.scales.contiguous());
    if (read.zeros.defined()) scales.zeros = read.zeros.to(at::kByte).contiguous();
  } else {
    scales = choose_scales(parameter, read.numbers, how, context);
  }
  ops::QuantizedMatrix matrix = ops::quantize(read.numbers, how, scales);
  matrix.type = options.type;
  if (options.device.is_cpu()) {
    matrix.codes = blocks.keep(matrix.codes);
  } else {
    matrix = ops::to_device(matrix, options.device);
  }
  return std::make_shared<const ops::QuantizedMatrix>(std::move(matrix));
}

// Returns weights as [.., out, in]; transposes them if the parameter is stored as [.., in, out].
at::Tensor oriented(const nn::Parameter& parameter, const at::Tensor& weights) {
  const bool in_out = weights.defined() && parameter.product == nn::WeightOrder::in_out;
  return in_out ? weights.transpose(-1, -2) : weights;
}

void quantize_all(nn::Parameter& parameter, const checkpoint::LocalWeights& weights,
                  const InferenceOptions& options, const ParallelContext& context,
                  CodeBlocks& blocks) {
  if (weights.numbers.numel() == 0) return;  // belongs to another pipeline stage
  ops::Quantization how;
  if (options.quantization) {
    how = parameter.role == nn::ParameterRole::head_table ? of_head(*options.quantization)
                                                          : *options.quantization;
  } else {
    COLOSSAL_CHECK(weights.stored.has_value(), "{} is held in numbers", parameter.name);
    how = *weights.stored;
  }
  if (!has_all_inputs(parameter) && how.group > 0) refuse_cut_groups(parameter, how.group);
  const MatrixRead all{.numbers = oriented(parameter, weights.numbers),
                       .scales = oriented(parameter, weights.scales),
                       .zeros = oriented(parameter, weights.zeros)};
  if (!is_stack(parameter)) {
    parameter.quantized = quantize(parameter, all, how, options, context, blocks);
    return;
  }
  for (int64_t expert = 0; expert < all.numbers.size(0); ++expert) {
    const auto of_expert = [&](const at::Tensor& stack) {
      return stack.defined() ? stack[expert] : stack;
    };
    const MatrixRead read{.numbers = of_expert(all.numbers),
                          .scales = of_expert(all.scales),
                          .zeros = of_expert(all.zeros)};
    parameter.quantized_stack.push_back(quantize(parameter, read, how, options, context, blocks));
  }
}

// Texts for error messages: why weights are quantized, and how to avoid that.
std::string cause_of_few_bits(const InferenceOptions& options) {
  return options.quantization ? "--quantize" : "a folder with quantized weights";
}
std::string way_to_numbers(const InferenceOptions& options) {
  return options.quantization ? "leave it out" : "dequantize them with --quantize=none";
}

void refuse_tiers(const InferenceOptions& options) {
  if (options.tiers.parameters.all_on_device()) return;
  throw ConfigError(
      fmt::format("{} with memory.offload_parameters: quantized weights can be stored on the "
                  "device only; {}, or leave memory.offload_parameters out",
                  cause_of_few_bits(options), way_to_numbers(options)));
}

// What generation with encoder-decoders does not have yet.
void refuse_ranks_of_encoder_decoder(const models::ModelFacts& facts,
                                     const InferenceOptions& options) {
  if (facts.encoder_layers == 0) return;
  const auto refuse = [&](const std::string& setting, const char* remedy) {
    throw ConfigError(
        fmt::format("{}: not available for generation with an encoder-decoder ({}); {}", setting,
                    facts.family, remedy));
  };
  const Strategy& strategy = options.strategy;
  if (strategy.pp > 1) refuse(fmt::format("parallel.pp = {}", strategy.pp), "use parallel.tp");
  if (strategy.sp > 1) refuse(fmt::format("parallel.sp = {}", strategy.sp), "use parallel.tp");
  if (strategy.tp > 1 && strategy.tensor_mode != TensorMode::one_d) {
    refuse(fmt::format("parallel.tp_mode = \"{}\"", tensor_mode_name(strategy.tensor_mode)),
           "use parallel.tp_mode = \"1d\"");
  }
  if (!options.tiers.parameters.all_on_device()) {
    refuse("memory.offload_parameters", "leave it out");
  }
  if (strategy.zero == 3) refuse("parallel.zero = 3", "leave it out");
}

// Tensor modes other than 1d send panels of weights between ranks, which is not supported for
// quantized weights.
void refuse_quantized_grid(const InferenceOptions& options) {
  const Strategy& strategy = options.strategy;
  if (strategy.tp == 1 || strategy.tensor_mode == TensorMode::one_d) return;
  throw ConfigError(fmt::format(
      "{} with parallel.tp_mode = \"{}\": in this mode ranks exchange weights, which is not "
      "supported for quantized weights; use parallel.tp_mode = \"1d\", or {}",
      cause_of_few_bits(options), tensor_mode_name(strategy.tensor_mode), way_to_numbers(options)));
}

void refuse_quantized_shards(const InferenceOptions& options) {
  if (options.strategy.zero < 3) return;
  throw ConfigError(
      fmt::format("{} with parallel.zero = 3: quantized weights cannot be sharded over dp x sp; "
                  "leave parallel.zero out, shard them with parallel.tp or parallel.pp, or {}",
                  cause_of_few_bits(options), way_to_numbers(options)));
}

// Adapters of single requests need the rows of a request in the order of the step, but experts
// receive rows in another order.
void refuse_experts(const models::ModelAdapter& adapter, const std::filesystem::path& folder) {
  const auto found = std::ranges::find_if(adapter.products, &adapters::Product::is_of_experts);
  if (found == adapter.products.end()) return;
  throw ConfigError(fmt::format(
      "{}: the adapter also changes {}, but adapters of experts cannot be applied to single "
      "requests; merge it into the model's weights with colossal convert --merge-adapter",
      folder.string(), found->module));
}

Strategy strategy_of(const InferenceOptions& options) {
  Strategy strategy = options.strategy;
  strategy.table_rows = options.quantization ? 0 : options.table_rows;
  return strategy;
}

// Returns the context, on meta, of a step with one token on each rank along sp.
nn::StepContext shortest_step(const Strategy& strategy) {
  nn::StepContext step = nn::make_step_context(1, 1, at::kMeta);
  step.tokens().whole_sequence = step.tokens().length = strategy.sp;
  return step;
}

// Returns the input of a stage for one token, on meta: the token itself, or the activation of the
// previous stage.
at::Tensor activation_before(int stage, const models::ModelSpecification& specification,
                             const InferenceOptions& options, const ParallelContext& context) {
  const at::Tensor token = at::empty({1, 1}, at::TensorOptions(at::kLong).device(at::kMeta));
  if (stage == 0) return token;
  const models::Assembly assembly = models::assemble(specification, context);
  models::Model& model = *assembly.model;
  for (const nn::ParameterHandle& parameter : assembly.parameters()) {
    parameter->tensor =
        at::empty(parameter->local_shape(), at::TensorOptions(options.type).device(at::kMeta));
  }
  const nn::StepContext step = shortest_step(context.strategy());
  const int64_t blocks = context.strategy().blocks_of_stage(stage, model.num_blocks()).begin;
  return model.run_blocks({0, blocks}, model.text_inputs().embed({token}, step), step).output();
}

}  // namespace

// Returns copies of the adapter's weights, which may outlive the model. Linear layers that are
// parts of one fused module share the A matrix, which is a parameter of the first of them.
std::map<std::string, nn::AdapterWeights::Product> products_of(
    const models::ModelAdapter& adapter, const nn::ParameterList& parameters) {
  std::map<std::string, at::Tensor> tensors;
  for (const nn::ParameterHandle& parameter : parameters) {
    // Parameters of other pipeline stages have no tensor.
    if (parameter->tensor.defined()) tensors[parameter->name] = parameter->tensor.detach().clone();
  }
  std::map<std::string, at::Tensor> downs;  // A matrices by module
  std::map<std::string, nn::AdapterWeights::Product> made;
  for (const adapters::Product& product : adapter.products) {
    const std::string kind = product.name == "token_embedding" ? ".lora_embedding_" : ".lora_";
    const auto own = tensors.find(product.name + kind + "A.weight");
    if (own != tensors.end()) downs[product.module] = own->second;
    if (!downs.contains(product.module)) continue;
    made[product.name] = {.down = downs.at(product.module),
                          .up = tensors.at(product.name + kind + "B.weight"),
                          .scale = adapter.settings.scale(product.module)};
  }
  return made;
}

// Returns copies of this rank's virtual tokens, by name of the attention layer.
std::map<std::string, ops::VirtualTokens> virtual_tokens_of(const nn::ParameterList& parameters,
                                                            int64_t head_size) {
  std::map<std::string, ops::VirtualTokens> of_attentions;
  for (const nn::ParameterHandle& parameter : parameters) {
    if (!parameter->tensor.defined()) continue;  // belongs to another pipeline stage
    const auto found = adapters::find_prefix_parameter(parameter->name);
    const at::Tensor heads =
        parameter->tensor.detach().unflatten(1, {-1, head_size}).transpose(0, 1).contiguous();
    constexpr std::string_view kAttention = "attention";
    const size_t end = parameter->name.rfind(kAttention) + kAttention.size();
    ops::VirtualTokens& tokens = of_attentions[parameter->name.substr(0, end)];
    (found->of_values ? tokens.values : tokens.keys) = heads;
  }
  return of_attentions;
}

// Sets the DoRA factors, which are computed from the weights in the model folder. A module has one
// factor per output; a product that is a part of a fused module gets its own rows of them.
void set_factors(const models::ModelSpecification& adapted, const nn::ParameterList& parameters,
                 at::TensorOptions options,
                 std::map<std::string, nn::AdapterWeights::Product>& products) {
  const checkpoint::AdapterMerge merge(adapted);
  const checkpoint::WeightFolder directory(adapted.weights);
  std::map<std::string, at::Tensor> of_modules;
  for (const adapters::Product& product : adapted.adapter->products) {
    const auto found = products.find(product.name);
    if (found == products.end()) continue;
    at::Tensor& factors = of_modules[product.module];
    if (!factors.defined()) {
      factors = merge.factors(product.module,
                              checkpoint::read_weight(directory, product.module + ".weight"));
    }
    const TensorSlice slice = models::slice_in_files(adapted, product.name + ".weight");
    const at::Tensor of_product =
        slice.is_whole() ? factors : nn::select_runs(factors, 0, slice.rows);
    const auto up = std::ranges::find(parameters, product.name + ".lora_B.weight",
                                      [](const auto& parameter) { return parameter->name; });
    found->second.factors = nn::select_runs(of_product, 0, nn::runs_here(**up, 0)).to(options);
  }
}

// This rank's part of the model, on the device; in a dry run on meta.
struct InferenceModel::Parts {
  Parts(const models::ModelSpecification& specification, const InferenceOptions& options,
        comm::World& world, at::Device device, const memory::OrderOfStages& order,
        const InFewBits& in_few_bits)
      : context(world, strategy_of(options), device),
        base(specification),
        assembly(models::assemble(specification, context)),
        weights(select(assembly.parameters(), in_few_bits, /*quantized=*/false), context,
                chunk_options(options), order) {}

  ParallelContext context;
  models::ModelSpecification base;  // the model to which load_adapter() adds adapters
  models::Assembly assembly;
  memory::ChunkEngine weights;
};

InferenceModel::InferenceModel(const models::ModelSpecification& specification,
                               const InferenceOptions& options)
    : alone_(comm::single_world(options.device)) {
  open(specification, options, *alone_);
}

InferenceModel::InferenceModel(const models::ModelSpecification& specification,
                               const InferenceOptions& options, comm::World& world) {
  open(specification, options, world);
}

void InferenceModel::open(const models::ModelSpecification& specification,
                          const InferenceOptions& options, comm::World& world) {
  refuse_ranks_of_encoder_decoder(specification.facts, options);
  std::set<std::string> stored;
  if (!options.quantization && options.as_stored) stored = names_in_few_bits(specification);
  const InFewBits in_few_bits = [&](const nn::Parameter& parameter) {
    if (options.quantization)
      return parameter.product || parameter.role == nn::ParameterRole::head_table;
    return stored.contains(parameter.name);
  };
  if (options.quantization || !stored.empty()) {
    refuse_tiers(options);
    refuse_quantized_grid(options);
    refuse_quantized_shards(options);
  }
  memory::OrderOfStages order;
  if (!options.tiers.parameters.all_on_device() || options.strategy.zero == 3) {
    order = record_order(specification, options, world.rank());
  }
  parts_ =
      std::make_unique<Parts>(specification, options, world, options.device, order, in_few_bits);
  const auto total = static_cast<int64_t>(parts_->assembly.parameters().size());
  CodeBlocks blocks;
  // read_model() calls `tell` twice for each parameter: when it checks the folder, and when it
  // reads the parameter.
  int64_t asked = 0;
  const auto tell = [&] {
    // Gives back the freed buffers of the parameters before. Otherwise the C library's heap grows
    // by a third of the weights, unless an arena happens to end with a freed buffer.
    if (!options.tiers.parameters.all_on_device()) malloc_trim(0);
    if (options.progress) options.progress(std::clamp<int64_t>(++asked - total, 0, total), total);
  };
  checkpoint::read_model(
      specification, parts_->weights,
      {.parameters = select(parts_->assembly.parameters(), in_few_bits, /*quantized=*/true),
       .take =
           [&](nn::Parameter& parameter, const checkpoint::LocalWeights& weights) {
             quantize_all(parameter, weights, options, parts_->context, blocks);
           },
       .as_stored = !options.quantization},
      tell);
  parts_->weights.begin_inference();
}

InferenceModel::~InferenceModel() = default;

// One forward pass is enough, because all passes use the weights in the same order.
memory::OrderOfStages InferenceModel::record_order(const models::ModelSpecification& specification,
                                                   const InferenceOptions& options, int rank) {
  ops::register_meta_kernels();
  const at::NoGradGuard no_grad;
  const auto world = comm::dry_world(rank, options.strategy.world_size());
  Parts dry(specification, options, *world, at::kMeta, {},
            [](const nn::Parameter&) { return false; });
  const Strategy& strategy = dry.context.strategy();
  const int stage = dry.context.coordinate(Axis::pp);
  const nn::StepContext step = shortest_step(strategy);
  const at::Tensor before = activation_before(stage, specification, options, dry.context);
  models::Model& model = *dry.assembly.model;
  dry.weights.begin_evaluation();
  nn::BlockState state{{before}};
  if (stage == 0) state = model.text_inputs().embed({before}, step);
  const Range blocks = strategy.blocks_of_stage(stage, model.num_blocks());
  state = model.run_blocks(blocks, state, step);
  if (stage == strategy.num_stages() - 1)
    model.token_head().logits(state.output(), step, /*wanted=*/{});
  dry.weights.end_evaluation();
  return dry.weights.order_of_use();
}

// Builds the model once more, with the adapter's parameters. Only these get memory.
std::shared_ptr<const nn::AdapterWeights> InferenceModel::load_adapter(
    const std::filesystem::path& folder) {
  const models::ModelSpecification adapted = models::with_adapter(parts_->base, folder);
  if (adapted.adapter->prefix && parts_->base.adapter && parts_->base.adapter->prefix) {
    throw ConfigError(
        fmt::format("{}: the model already has a prefix, from {}, and a second one cannot be "
                    "added; serve the model without an adapter, and choose prefixes by request",
                    folder.string(), parts_->base.adapter->weights.string()));
  }
  if (!adapted.adapter->trained.empty()) {
    throw ConfigError(
        fmt::format("{}: modules_to_save = {}: requests share these modules, with or without the "
                    "adapter; merge it "
                    "into the model's weights with colossal convert --merge-adapter",
                    folder.string(), fmt::join(adapted.adapter->settings.modules_to_save, ", ")));
  }
  refuse_experts(*adapted.adapter, folder);
  if (adapted.facts.key_value_cache_features != parts_->base.facts.key_value_cache_features) {
    throw ConfigError(fmt::format(
        "{}: the adapter changes kv_b_proj, which computes keys and values from latents, but the "
        "KV cache stores the latents, for all requests alike; merge it into the model's weights "
        "with colossal convert --merge-adapter, or adapt other linear layers",
        folder.string()));
  }
  const ParallelContext& context = parts_->context;
  const models::Assembly assembly = models::assemble(adapted, context);
  const nn::ParameterList parameters = adapters::split_parameters(assembly.parameters()).of_adapter;
  memory::ChunkEngine chunks(parameters, context, memory::ChunkOptions{.working = type()});
  checkpoint::read_adapter(adapted, parameters, chunks);
  chunks.begin_inference();
  static std::atomic<uint64_t> last_number = 0;
  const auto loaded = std::make_shared<nn::AdapterWeights>();
  loaded->number = ++last_number;
  loaded->folder = folder.string();
  loaded->products = products_of(*adapted.adapter, parameters);
  if (adapted.adapter->prefix) {
    loaded->num_virtual_tokens = adapted.adapter->prefix->virtual_tokens;
    loaded->virtual_tokens = virtual_tokens_of(parameters, adapted.facts.head_size);
  }
  if (adapted.adapter->settings.dora) {
    set_factors(adapted, parameters, at::TensorOptions(type()).device(device()), loaded->products);
  }
  return loaded;
}

models::Model& InferenceModel::operator*() const {
  return *parts_->assembly.model;
}

int64_t InferenceModel::weight_bytes() const {
  int64_t bytes = 0;
  for (const memory::Tier tier : {memory::Tier::device, memory::Tier::host, memory::Tier::nvme}) {
    bytes += parts_->weights.state_bytes(tier).parameters;
  }
  for (const nn::ParameterHandle& parameter : parts_->assembly.parameters()) {
    if (parameter->quantized) bytes += parameter->quantized->bytes();
    for (const auto& of_expert : parameter->quantized_stack) bytes += of_expert->bytes();
  }
  return bytes;
}

bool InferenceModel::is_quantized() const {
  return std::ranges::any_of(parts_->assembly.parameters(),
                             [](const nn::ParameterHandle& parameter) {
                               return parameter->quantized || !parameter->quantized_stack.empty();
                             });
}

const ParallelContext* InferenceModel::ranks() const {
  return parts_->context.strategy().world_size() > 1 ? &parts_->context : nullptr;
}

at::Device InferenceModel::device() const {
  return parts_->context.device();
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
  std::string text = fmt::format("weights: {} on the device, {} on the host",
                                 format_bytes(resting(memory::Tier::device)),
                                 format_bytes(resting(memory::Tier::host)));
  if (on_nvme > 0)
    text += fmt::format(", {} on nvme in {}", format_bytes(on_nvme),
                        parts_->weights.options().tiers.nvme_path);
  text += fmt::format("; at most {} of them are on the device temporarily",
                      format_bytes(parts_->weights.fetched_peak_bytes()));
  if (on_nvme > 0) {
    text += fmt::format(", and {} in transfer",
                        format_bytes(parts_->weights.options().window_bytes / 2));
  }
  return text;
}

}  // namespace colossal::serve
