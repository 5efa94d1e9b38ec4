#include "colossal/nn/dense_builder.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/nn/product.h"
#include "colossal/nn/query_key_norm.h"

namespace colossal::nn {

std::unique_ptr<Attention> make_dense_attention(std::string stream, const AttentionOptions& options,
                                                const LocalHeads& here,
                                                const AttentionParameters& parameters) {
  return std::make_unique<DenseAttention>(std::move(stream), options, here, parameters);
}

namespace {

// Returns the initializer of a norm's weight with which the factor is 1.
Initializer initial_weight(bool unit_offset) {
  return unit_offset ? Initializer::zeros() : Initializer::ones();
}

int64_t total_size(const std::vector<Range>& runs) {
  int64_t size = 0;
  for (const Range& run : runs) size += run.size();
  return size;
}

}  // namespace

std::string DenseBuilder::full_name(const std::string& name) const {
  std::string full;
  for (const std::string& part : path_) full += part + ".";
  return full + name;
}

ParameterHandle DenseBuilder::parameter(const std::string& layer, const std::string& name,
                                        std::vector<int64_t> shape, Initializer initializer,
                                        Placement placement) {
  auto made = std::make_shared<Parameter>();
  made->name = full_name(layer) + "." + name;
  made->shape = std::move(shape);
  made->initializer = initializer;
  made->placement = std::move(placement);
  made->placement.stage = stage_;
  made->part = part_;
  made->of_adapter = adapters_ && adapters_->trained.contains(made->name);
  made->trainable = !adapters_ || made->of_adapter;
  for (const ParameterHandle& other : parameters_) {
    COLOSSAL_CHECK(other->name != made->name, "parameter {} registered twice", made->name);
  }
  parameters_.emplace_back(made);
  return parameters_.back();
}

std::vector<std::vector<Range>> DenseBuilder::blocks_of(
    const std::vector<Range>& rows_of_ranks) const {
  int64_t largest = 0;
  for (const Range& rows : rows_of_ranks) largest = std::max(largest, rows.size());
  std::vector<std::vector<Range>> blocks;
  for (const Range& rows : rows_of_ranks) blocks.push_back(cut_rows(rows, largest, table_rows_));
  return blocks;
}

TokenTable DenseBuilder::token_table(const std::string& name, const EmbeddingOptions& options,
                                     const std::vector<Range>& rows_of_ranks, size_t rank,
                                     Placement of_rows) {
  const std::vector<std::vector<Range>> blocks_of_ranks = blocks_of(rows_of_ranks);
  const bool all_features = of_rows.held.empty();
  const std::vector<Range> features =
      all_features ? std::vector<Range>{{0, options.features}} : of_rows.held.front();
  of_rows.held.clear();
  std::vector<ParameterHandle> blocks{parameter(name, "weight",
                                                {options.vocabulary, options.features},
                                                options.initializer, std::move(of_rows))};
  // The other blocks are copies of the first one, which get their own rows below.
  const size_t count = blocks_of_ranks[rank].size();
  for (size_t index = 1; index < count; ++index) {
    blocks.emplace_back(std::make_shared<Parameter>(*blocks.front()));
    parameters_.push_back(blocks.back());
  }
  for (size_t index = 0; index < count; ++index) {
    const Range rows = blocks_of_ranks[rank][index];
    if (rows_of_ranks.size() > 1 || count > 1 || !all_features) {
      blocks[index]->placement.held = {{rows}, features};
      if (rows.empty()) blocks[index]->placement.held[0].clear();
    }
    if (count == 1) break;
    RowBlock& block = blocks[index]->block.emplace();
    block.index = static_cast<int>(index);
    for (const std::vector<Range>& of_rank : blocks_of_ranks) {
      block.numel += of_rank[index].size() * options.features;
    }
  }
  return TokenTable(std::move(blocks));
}

std::unique_ptr<Embedding> DenseBuilder::embedding(const std::string& name,
                                                   const EmbeddingOptions& options) {
  TokenTable table = token_table(name, options, {{0, options.vocabulary}}, 0);
  return std::make_unique<DenseEmbedding>(std::move(table), embedding_adapter(name, options));
}

ParameterHandle DenseBuilder::low_rank_parameter(const std::string& layer, const char* name,
                                                 std::vector<int64_t> shape,
                                                 Initializer initializer, Placement placement) {
  ParameterHandle made =
      parameter(layer, name, std::move(shape), initializer, std::move(placement));
  made->trainable = made->of_adapter = true;
  return made;
}

EmbeddingAdapter DenseBuilder::embedding_adapter(const std::string& name,
                                                 const EmbeddingOptions& options) {
  const auto module = adapters_ ? adapters_->adapted(full_name(name)) : std::nullopt;
  if (!module) return EmbeddingAdapter(full_name(name));
  const auto [rank, scale] = adapters_->size_of(*module);
  const auto down = low_rank_parameter(name, "lora_embedding_A.weight", {rank, options.vocabulary},
                                       Initializer::zeros(), of_all_heads());
  const auto up = low_rank_parameter(name, "lora_embedding_B.weight", {options.features, rank},
                                     Initializer::normal(1), of_all_heads());
  return {full_name(name), down, up, scale};
}

HeadAdapter DenseBuilder::head_adapter(const std::string& name, const EmbeddingOptions& table) {
  const auto module = adapters_ ? adapters_->adapted(full_name(name)) : std::nullopt;
  if (!module) return HeadAdapter(full_name(name));
  const auto [rank, scale] = adapters_->size_of(*module);
  const auto down =
      low_rank_parameter(name, "lora_A.weight", {rank, table.features},
                         Initializer::normal(1 / static_cast<double>(rank)), of_all_heads());
  const auto up = low_rank_parameter(name, "lora_B.weight", {table.vocabulary, rank},
                                     Initializer::zeros(), of_all_heads());
  std::unique_ptr<Dropout> dropped;
  if (adapters_->dropout > 0) {
    dropped = head_dropout(name + ".lora_dropout", adapters_->dropout);
  }
  return {full_name(name), down, up, scale, std::move(dropped)};
}

std::unique_ptr<PositionEmbedding> DenseBuilder::position_embedding(
    const std::string& name, const EmbeddingOptions& options) {
  const std::vector<int64_t> shape{options.vocabulary, options.features};
  auto weight = parameter(name, "weight", shape, options.initializer, of_features(shape, 1));
  return std::make_unique<DensePositionEmbedding>(weight, options.first_row, local_tokens());
}

std::pair<ParameterHandle, ParameterHandle> DenseBuilder::linear_parameters(
    const std::string& name, const LinearOptions& options, Placement of_weight, Placement of_bias) {
  const bool out_in = options.order == WeightOrder::out_in;
  std::vector<int64_t> shape{out_in ? options.out_features : options.in_features,
                             out_in ? options.in_features : options.out_features};
  auto weight =
      parameter(name, "weight", std::move(shape), options.initializer, std::move(of_weight));
  weight->product = options.order;
  if (adapters_ && adapters_->base && !weight->trainable) {
    weight->packed = std::make_shared<const ops::PackedLayout>(
        packed_layout(*adapters_->base, weight->shape, weight->placement.held, options.order));
  }
  auto bias = options.bias ? parameter(name, "bias", {options.out_features}, Initializer::zeros(),
                                       std::move(of_bias))
                           : ParameterHandle();
  return {std::move(weight), std::move(bias)};
}

LowRankAdapter DenseBuilder::adapter(const std::vector<AdaptedProduct>& products,
                                     const AdaptedInput& input) {
  std::vector<std::string> adapted;  // the module of each A in `downs`
  std::vector<ParameterHandle> downs;
  std::vector<LowRankAdapter::Product> parts;
  const auto make = [&](const std::string& layer, const char* name, std::vector<int64_t> shape,
                        Initializer initializer, Placement placement) {
    return low_rank_parameter(layer, name, std::move(shape), initializer, std::move(placement));
  };
  for (const AdaptedProduct& product : products) {
    LowRankAdapter::Product& part = parts.emplace_back();
    part.name = full_name(product.name);
    part.out_features =
        product.of_b.held.empty() ? product.out_features : total_size(product.of_b.held.front());
    const auto of_product = adapters_ ? adapters_->adapted(part.name) : std::nullopt;
    if (!of_product) continue;
    const auto [rank, scale] = adapters_->size_of(*of_product);
    const std::vector<Range> all_of_rank{{0, rank}};
    part.scale = scale;
    part.down = static_cast<size_t>(std::ranges::find(adapted, *of_product) - adapted.begin());
    if (part.down == adapted.size()) {
      adapted.push_back(*of_product);
      Placement placement = input.of_a;
      if (!placement.held.empty()) placement.held.insert(placement.held.begin(), all_of_rank);
      downs.push_back(make(product.name, "lora_A.weight", {rank, input.features},
                           Initializer::normal(1 / static_cast<double>(rank)), placement));
      if (adapters_->keeps_start) {
        make(product.name, "lora_A_start.weight", {rank, input.features}, Initializer::zeros(),
             std::move(placement))
            ->trainable = false;
      }
    }
    Placement placement = product.of_b;
    if (!placement.held.empty()) placement.held.push_back(all_of_rank);
    part.up = make(product.name, "lora_B.weight", {product.out_features, rank},
                   Initializer::zeros(), placement);
    if (adapters_->keeps_start) {
      make(product.name, "lora_B_start.weight", {product.out_features, rank}, Initializer::zeros(),
           std::move(placement))
          ->trainable = false;
    }
    if (!adapters_->magnitudes) continue;
    part.weight = product.weight;
    part.magnitudes = make(product.name, "lora_magnitude_vector.weight", {product.out_features},
                           Initializer::ones(), product.of_b);
    magnitudes_.push_back(
        {part.magnitudes,
         [of = AdaptedWeight{part.weight, downs[part.down], part.up, scale},
          sum = sum_over_ranks()](LayerScope& scope) { return output_norms(of, sum, scope); }});
  }
  std::unique_ptr<Dropout> dropped;
  if (!downs.empty() && adapters_->dropout > 0) {
    const std::string name = products.front().name + ".lora_dropout";
    dropped =
        input.dropout ? input.dropout(name, adapters_->dropout) : dropout(name, adapters_->dropout);
  }
  return {std::move(downs), std::move(parts), std::move(dropped), input.layout_change,
          sum_over_ranks()};
}

LinearOptions part_of(const FusedLinearOptions& options, const FusedLinearOptions::Part& part) {
  return {.in_features = options.in_features,
          .out_features = part.out_features,
          .bias = options.bias,
          .initializer = part.initializer.value_or(options.initializer)};
}

std::unique_ptr<Linear> DenseBuilder::linear(const std::string& name,
                                             const LinearOptions& options) {
  auto [weight, bias] = linear_parameters(name, options, whole(), whole());
  const AdaptedInput input{.features = options.in_features, .of_a = whole()};
  auto linear = std::make_unique<DenseLinear>(
      weight, bias, options.order, adapter({{name, options.out_features, whole(), weight}}, input));
  return with_input_dropout(name, options, input, std::move(linear));
}

std::unique_ptr<Linear> DenseBuilder::with_input_dropout(const std::string& name,
                                                         const LinearOptions& options,
                                                         const AdaptedInput& input,
                                                         std::unique_ptr<Linear> linear) {
  if (options.input_dropout == 0) return linear;
  const std::string stream = name + ".input_dropout";
  auto dropped = input.dropout ? input.dropout(stream, options.input_dropout)
                               : dropout(stream, options.input_dropout);
  return std::make_unique<LinearOfDropout>(std::move(dropped), std::move(linear));
}

std::unique_ptr<Linear> DenseBuilder::fused_linear(const FusedLinearOptions& options) {
  std::vector<ParameterHandle> weights, biases;
  std::vector<AdaptedProduct> products;
  for (const FusedLinearOptions::Part& part : options.parts) {
    auto [weight, bias] = linear_parameters(part.name, part_of(options, part), whole(), whole());
    weights.push_back(weight);
    if (bias) biases.push_back(bias);
    products.push_back({part.name, part.out_features, whole(), weight});
  }
  return std::make_unique<DenseFusedLinear>(
      std::move(weights), std::move(biases),
      adapter(products, {.features = options.in_features, .of_a = whole()}));
}

std::unique_ptr<LatentAttention> DenseBuilder::latent_attention(
    const std::string& name, const LatentAttentionOptions& options) {
  const auto product_options = [&](int64_t in_features, int64_t out_features) {
    return LinearOptions{.in_features = in_features,
                         .out_features = out_features,
                         .bias = false,
                         .initializer = options.initializer};
  };
  const int64_t queries = options.heads * options.head_size();
  LatentAttentionLayer::Parts parts;
  make_down(options, parts);
  if (options.query_rank > 0) {
    const LinearOptions up = product_options(options.query_rank, queries);
    parts.query_norm = latent_norm("query_latent_norm", options.query_rank, options.norm_epsilon);
    parts.query_up = latent_product("query_up", up, latent_weight("query_up", up));
  } else {
    parts.query = linear("query", product_options(options.hidden, queries));
  }
  parts.key_value_norm =
      latent_norm("key_value_latent_norm", options.key_value_rank, options.norm_epsilon);
  const LinearOptions up =
      product_options(options.key_value_rank, options.heads * (options.plain + options.value));
  parts.key_value_weight = latent_weight("key_value_up", up);
  // attend_absorbed() reads the weight itself, so it must not be quantized or packed.
  parts.key_value_weight->product.reset();
  parts.key_value_weight->packed = nullptr;
  parts.key_value_up = latent_product("key_value_up", up, parts.key_value_weight);
  AttentionOptions among_heads = options.attention;
  among_heads.heads = among_heads.kv_heads = options.heads;
  among_heads.head_size = options.head_size();
  among_heads.value_size = options.value;
  parts.attention = attention(name, among_heads);
  parts.absorbed_attention = attention_of_latents(name, options);
  return std::make_unique<LatentAttentionLayer>(options, std::move(parts));
}

std::unique_ptr<Attention> DenseBuilder::attention_of_latents(
    const std::string& name, const LatentAttentionOptions& options) {
  if (adapters_ && adapters_->adapted(full_name("key_value_up"))) return nullptr;
  AttentionOptions among_latents = options.attention;
  among_latents.heads = options.heads;
  among_latents.kv_heads = 1;
  among_latents.head_size = options.rotary + options.key_value_rank;
  among_latents.value_size = options.key_value_rank;
  return attention(name + "_of_latents", among_latents);
}

void DenseBuilder::make_down(const LatentAttentionOptions& options,
                             LatentAttentionLayer::Parts& parts) {
  AdaptedInput input = input_of_latents(options.hidden);
  parts.move = std::move(input.layout_change.move);
  input.layout_change = LowRankAdapter::LayoutChange::here(input.layout_change.of_x);
  std::vector<ParameterHandle> weights;
  std::vector<AdaptedProduct> products;
  const auto make = [&](const char* name, int64_t out_features) {
    Placement of_weight = input.of_a;
    if (!of_weight.held.empty()) {
      of_weight.held.insert(of_weight.held.begin(), {{0, out_features}});
    }
    auto [weight, bias] = linear_parameters(name,
                                            {.in_features = options.hidden,
                                             .out_features = out_features,
                                             .bias = options.bias,
                                             .initializer = options.initializer},
                                            std::move(of_weight), of_all_heads());
    weights.push_back(weight);
    if (bias) parts.down_biases.push_back(bias);
    products.push_back({name, out_features, of_latent_adapter_b(), weight});
  };
  if (options.query_rank > 0) make("query_down", options.query_rank);
  make("key_value_down", options.key_value_rank + options.rotary);
  parts.down = std::make_unique<DenseFusedLinear>(
      std::move(weights), std::vector<ParameterHandle>{}, adapter(products, input));
}

std::unique_ptr<Norm> DenseBuilder::latent_norm(const std::string& name, int64_t features,
                                                double epsilon) {
  return std::make_unique<DenseNorm>(NormParts{
      .name = full_name(name),
      .epsilon = epsilon,
      .features = features,
      .weight = parameter(name, "weight", {features}, Initializer::ones(), of_all_heads())});
}

ParameterHandle DenseBuilder::latent_weight(const std::string& name, const LinearOptions& options) {
  Placement of_weight = of_head_outputs(name);
  if (!of_weight.held.empty()) of_weight.held.push_back({{0, options.in_features}});
  return linear_parameters(name, options, std::move(of_weight), {}).first;
}

std::unique_ptr<Linear> DenseBuilder::latent_product(const std::string& name,
                                                     const LinearOptions& options,
                                                     const ParameterHandle& weight) {
  return std::make_unique<DenseLinear>(
      weight, ParameterHandle(), options.order,
      adapter({{name, options.out_features, of_head_outputs(name), weight}},
              latents(options.in_features)));
}

Router DenseBuilder::router(const ExpertsOptions& options) {
  const RouterOptions& router = options.router;
  const ParameterHandle weight = parameter("router", "weight", {router.experts, options.hidden},
                                           options.initializer, of_router());
  const auto bias_if = [&](bool has, const char* name) {
    if (!has) return ParameterHandle();
    return parameter("router", name, {router.experts}, Initializer::zeros(), of_router());
  };
  const ParameterHandle bias = bias_if(router.bias, "bias");
  const ParameterHandle correction = bias_if(router.correction_bias, "correction_bias");
  if (correction) {
    correction->role = ParameterRole::router_bias;
    correction->trainable = false;
    correction->in_fp32 = true;
  }
  return Router(router, weight, bias, correction);
}

std::unique_ptr<Experts> DenseBuilder::experts(const std::string& name,
                                               const ExpertsOptions& options) {
  Router of_layer = router(options);
  return make_experts({.layer = options.layer,
                       .router = std::move(of_layer),
                       .gather_token_rows = gather_token_rows(),
                       .stacks = expert_stacks(name, options),
                       .places = expert_places(options)},
                      options);
}

ParameterHandle DenseBuilder::register_expert_stack(const std::string& layer, const char* name,
                                                    const ExpertStack& stack,
                                                    Initializer initializer) {
  const ParameterHandle made = parameter(layer, name, stack.shape, initializer, of_experts(stack));
  made->of_experts = true;
  return made;
}

std::unique_ptr<ExpertStacks> DenseBuilder::expert_stacks(const std::string& name,
                                                          const ExpertsOptions& options) {
  const int64_t experts = options.router.experts, hidden = options.hidden, inner = options.inner;
  const Initializer first = options.initializer, zeros = Initializer::zeros();
  const auto weight = [&](const char* matrix, WeightOrder order, ExpertStack stack,
                          Initializer initializer) {
    stack.layer = options.layer;
    const auto made = register_expert_stack(name + matrix, "weight", stack, initializer);
    made->product = order;
    if (adapters_ && adapters_->base && !made->trainable) {
      made->packed = std::make_shared<const ops::PackedLayout>(
          packed_stack_layout(*adapters_->base, made->shape, made->placement.held, order));
    }
    return made;
  };
  if (options.clamped_gate) {
    constexpr WeightOrder kOrder = WeightOrder::in_out;
    const auto gate_up = weight(".gate_up", kOrder, {{experts, hidden, 2 * inner}, 2, 2}, first);
    const auto gate_up_bias = register_expert_stack(
        name + ".gate_up", "bias", {{experts, 2 * inner}, 1, 2, options.layer}, zeros);
    const auto down =
        weight(".down", kOrder, {{experts, inner, hidden}, 1}, options.down_initializer);
    const auto down_bias = register_expert_stack(name + ".down", "bias",
                                                 {{experts, hidden}, -1, 1, options.layer}, zeros);
    ExpertAdapters adapters{
        expert_adapter({{name + ".gate_up", 2 * inner}}, hidden, options, /*cut_outputs=*/true, 2),
        expert_adapter({{name + ".down", hidden}}, inner, options, /*cut_outputs=*/false, 1)};
    return std::make_unique<InterleavedStacks>(
        InterleavedStacks::Parameters{gate_up, gate_up_bias, down, down_bias}, std::move(adapters),
        *options.clamped_gate, ranks_per_expert());
  }
  const ExpertStack to_inner{{experts, inner, hidden}, 1};
  constexpr WeightOrder kOrder = WeightOrder::out_in;
  const auto gate = weight(".gate", kOrder, to_inner, first);
  const auto up = weight(".up", kOrder, to_inner, first);
  const auto down =
      weight(".down", kOrder, {{experts, hidden, inner}, 2}, options.down_initializer);
  ExpertAdapters adapters{
      expert_adapter({{name + ".gate", inner}, {name + ".up", inner}}, hidden, options,
                     /*cut_outputs=*/true, 1),
      expert_adapter({{name + ".down", hidden}}, inner, options, /*cut_outputs=*/false, 1)};
  return std::make_unique<SeparateStacks>(gate, up, down, std::move(adapters), options.activation);
}

ExpertAdapter DenseBuilder::expert_adapter(const std::vector<AdaptedStack>& stacks,
                                           int64_t in_features, const ExpertsOptions& options,
                                           bool cut_outputs, int64_t inner_width) {
  if (!adapters_) return {};
  std::optional<std::string> module;  // one for all stacks
  for (const AdaptedStack& stack : stacks) module = adapters_->adapted(full_name(stack.name));
  if (!module) return {};
  const auto [rank, scale] = adapters_->size_of(*module);
  const int64_t experts = options.router.experts;
  const auto placed = [&](bool is_a, int64_t features) {
    const bool is_cut = is_a != cut_outputs;
    return of_expert_adapter(
        {is_a, experts, rank, features, is_cut ? inner_width : int64_t{0}, options.layer});
  };
  const auto down = low_rank_parameter(
      stacks.front().name, "lora_A.weight", {experts * rank, in_features},
      Initializer::normal(1 / static_cast<double>(rank)), placed(/*is_a=*/true, in_features));
  std::vector<ParameterHandle> ups;
  for (const auto& [name, out_features] : stacks) {
    ups.push_back(low_rank_parameter(name, "lora_B.weight", {out_features, rank * experts},
                                     Initializer::zeros(), placed(/*is_a=*/false, out_features)));
  }
  return {down, std::move(ups), rank, scale};
}

std::unique_ptr<Experts> DenseBuilder::make_experts(ExpertsParts parts,
                                                    const ExpertsOptions& /*options*/) {
  return std::make_unique<LocalExperts>(std::move(parts));
}

std::unique_ptr<GatedActivation> DenseBuilder::gated_activation(const std::string& name,
                                                                ops::Activation activation) {
  return std::make_unique<DenseGatedActivation>(full_name(name), activation);
}

std::unique_ptr<Norm> DenseBuilder::rms_norm(const std::string& name, const NormOptions& options) {
  return norm(name, options, /*centered=*/false);
}

std::unique_ptr<Norm> DenseBuilder::layer_norm(const std::string& name,
                                               const NormOptions& options) {
  return norm(name, options, /*centered=*/true);
}

std::unique_ptr<Norm> DenseBuilder::norm(const std::string& name, const NormOptions& options,
                                         bool centered) {
  NormParts parts{.name = full_name(name),
                  .centered = centered,
                  .epsilon = options.epsilon,
                  .unit_offset = options.unit_offset,
                  .features = options.features};
  if (options.weight) {
    parts.weight = parameter(name, "weight", {options.features},
                             initial_weight(options.unit_offset), of_features(options.features));
  }
  if (options.weight && options.bias && centered) {
    parts.bias = parameter(name, "bias", {options.features}, Initializer::zeros(),
                           of_features(options.features));
  }
  return make_norm(std::move(parts));
}

std::unique_ptr<Norm> DenseBuilder::make_norm(NormParts parts) {
  return std::make_unique<DenseNorm>(std::move(parts));
}

std::unique_ptr<Norm> DenseBuilder::make_norm_over_heads(NormParts parts, HeadKind) {
  return std::make_unique<DenseNorm>(std::move(parts));
}

std::unique_ptr<Dropout> DenseBuilder::dropout(const std::string& name, double probability) {
  return std::make_unique<DenseDropout>(full_name(name), probability, local_tokens());
}

std::unique_ptr<Attention> DenseBuilder::attention(const std::string& name,
                                                   const AttentionOptions& options) {
  const LocalHeads here = heads_here(options.heads, options.kv_heads);
  std::unique_ptr<Norm> norm;
  if (options.query_key_norm.kind != QueryKeyNormOptions::Kind::none) {
    norm = query_key_norm(options, here);
  }
  AttentionParameters parameters = attention_parameters(name, options, here);
  if (virtual_tokens() > 0) {
    parameters.virtual_keys =
        virtual_heads(name + ".virtual_keys", options, here, options.head_size);
    parameters.virtual_values =
        virtual_heads(name + ".virtual_values", options, here, options.size_of_value());
  }
  auto attention = make_attention_(full_name(name), options, here, parameters);
  if (!norm) return attention;
  return std::make_unique<NormedAttention>(std::move(norm), std::move(attention));
}

ParameterHandle DenseBuilder::virtual_heads(const std::string& name,
                                            const AttentionOptions& options, const LocalHeads& here,
                                            int64_t size) {
  const int64_t tokens = virtual_tokens();
  Placement placement = of_heads(HeadKind::key);
  if (here.keys.size() < options.kv_heads) {
    placement.held = {{{0, tokens}}, {{here.keys.begin * size, here.keys.end * size}}};
  }
  ParameterHandle made = parameter(name, "weight", {tokens, options.kv_heads * size},
                                   adapters_->virtual_initializer, std::move(placement));
  made->trainable = made->of_adapter = true;
  return made;
}

std::unique_ptr<RelativeBias> DenseBuilder::relative_bias(const std::string& name,
                                                          const RelativeBiasOptions& options) {
  const LocalHeads here = heads_here(options.heads, options.heads);
  Placement placement = of_heads(HeadKind::query);
  if (here.queries.size() < options.heads) {
    placement.held = {{{0, options.buckets}}, {here.queries}};
  }
  return std::make_unique<DenseRelativeBias>(
      parameter(name, "weight", {options.buckets, options.heads}, options.initializer,
                std::move(placement)),
      options);
}

std::unique_ptr<CrossAttention> DenseBuilder::cross_attention(const std::string& name,
                                                              const AttentionOptions& options) {
  const LocalHeads here = heads_here(options.heads, options.kv_heads);
  return std::make_unique<DenseCrossAttention>(full_name(name), options, here,
                                               attention_parameters(name, options, here),
                                               divided_sequences_);
}

AttentionParameters DenseBuilder::attention_parameters(const std::string& name,
                                                       const AttentionOptions& options,
                                                       const LocalHeads& here) {
  AttentionParameters parameters;
  if (!options.sinks) return parameters;
  Placement placement = of_heads(HeadKind::query);
  if (here.queries.size() < options.heads) placement.held = {{here.queries}};
  parameters.sinks =
      parameter(name, "sinks", {options.heads}, *options.sinks, std::move(placement));
  return parameters;
}

std::unique_ptr<Norm> DenseBuilder::query_key_norm(const AttentionOptions& options,
                                                   const LocalHeads& here) {
  NormParts queries = head_norm_parts(HeadKind::query, options, here);
  NormParts keys = head_norm_parts(HeadKind::key, options, here);
  const HeadCounts counts{here.queries.size(), here.keys.size(), options.head_size};
  if (options.query_key_norm.over == QueryKeyNormOptions::Over::each_head) {
    return std::make_unique<NormOfEachHead>(std::move(queries), std::move(keys), counts);
  }
  auto of_queries = make_norm_over_heads(std::move(queries), HeadKind::query);
  return std::make_unique<NormOverAllHeads>(
      std::move(of_queries), make_norm_over_heads(std::move(keys), HeadKind::key), counts);
}

NormParts DenseBuilder::head_norm_parts(HeadKind kind, const AttentionOptions& options,
                                        const LocalHeads& here) {
  const QueryKeyNormOptions& norm = options.query_key_norm;
  const bool of_queries = kind == HeadKind::query;
  const bool over_all = norm.over == QueryKeyNormOptions::Over::all_heads;
  const int64_t heads = of_queries ? options.heads : options.kv_heads, size = options.head_size;
  const Range range = of_queries ? here.queries : here.keys;
  const bool all_here = range.size() == heads;
  std::vector<int64_t> shape{size};
  Placement placement = of_all_heads();
  if (over_all || norm.own_weights) {
    placement = of_heads(kind);
    shape = over_all ? std::vector{heads * size} : std::vector{heads, size};
    const int64_t of_a_head = over_all ? size : 1;
    if (!all_here) placement.held = {{{range.begin * of_a_head, range.end * of_a_head}}};
    if (!all_here && !over_all) placement.held.push_back({{0, size}});
  }
  const std::string name = of_queries ? "query_norm" : "key_norm";
  NormParts parts{
      .name = full_name(name),
      .centered = norm.centered(),
      .epsilon = norm.epsilon,
      .unit_offset = norm.unit_offset,
      .features = heads * size,
      .weight = parameter(name, "weight", shape, initial_weight(norm.unit_offset), placement)};
  if (norm.bias) parts.bias = parameter(name, "bias", shape, Initializer::zeros(), placement);
  return parts;
}

TokenTable DenseBuilder::head_table(const std::string& name, const EmbeddingOptions& options) {
  return token_table(name, options, {{0, options.vocabulary}}, 0);
}

VocabularyHeadParts DenseBuilder::head_parts(const std::string& name,
                                             const VocabularyHeadOptions& options,
                                             TokenTable table) {
  const int64_t vocabulary = options.table.vocabulary;
  VocabularyHeadParts parts{.table = std::move(table),
                            .bias = {},
                            .rows = head_rows(vocabulary),
                            .logit_scale = options.logit_scale,
                            .soft_cap = options.soft_cap};
  parts.table.mark_as_head();
  parts.adapter = head_adapter(name, options.table);
  if (!options.bias) return parts;
  Placement placement = of_head_bias(vocabulary);
  if (parts.rows.size() < vocabulary) {
    placement.held.emplace_back();
    if (!parts.rows.empty()) placement.held.front().push_back(parts.rows);
  }
  parts.bias = parameter(name, "bias", {vocabulary}, Initializer::zeros(), std::move(placement));
  return parts;
}

std::unique_ptr<VocabularyHead> DenseBuilder::vocabulary_head(
    const std::string& name, const VocabularyHeadOptions& options) {
  return make_head(head_parts(name, options, head_table(name, options.table)));
}

std::unique_ptr<VocabularyHead> DenseBuilder::make_head(VocabularyHeadParts parts) {
  return std::make_unique<DenseVocabularyHead>(std::move(parts));
}

std::unique_ptr<VocabularyHead> DenseBuilder::tied_vocabulary_head(
    const std::string& name, const std::string& embedding_name,
    const VocabularyHeadOptions& options) {
  const std::string wanted = full_name(embedding_name) + ".weight";
  std::vector<ParameterHandle> blocks;
  for (const ParameterHandle& handle : parameters_) {
    if (handle->name == wanted) blocks.push_back(handle);
  }
  COLOSSAL_CHECK(!blocks.empty(), "no embedding {} to tie a head to", wanted);
  for (const ParameterHandle& block : blocks) block->placement.tied_stage = stage_;
  return make_tied_head(head_parts(name, options, TokenTable(std::move(blocks)).tie()));
}

}  // namespace colossal::nn
