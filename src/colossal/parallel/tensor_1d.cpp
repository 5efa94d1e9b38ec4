#include "colossal/parallel/tensor_1d.h"

#include "colossal/base/error.h"
#include "colossal/layout/partition.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/linear_cross_entropy.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using nn::ParameterHandle;
using nn::StepContext;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor flat_tokens(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

using Cut = LinearSharding::Cut;
using Ranks = Tensor1dRanks;

// The first product of a pair, y = x weight^T + bias of this rank's outputs: begin_pair() and the
// product in one, so that backward all that travels does so under a product. x is not kept whole:
// backward gathers it again.
struct FirstProduct : torch::autograd::Function<FirstProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, bool in_out, bool share_tokens,
                            const RowSharding& rows) {
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.defined();
    context->saved_data["in_out"] = in_out;
    context->saved_data["share_tokens"] = share_tokens;
    save_group(context, *rows.group);
    context->saved_data["rows"] = rows.rows;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor all = share_tokens ? start_gather_rows(x, rows).wait() : flat_tokens(x);
    return at::linear(all, in_out ? weight.t() : weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const bool in_out = data["in_out"].toBool(), share_tokens = data["share_tokens"].toBool();
    const RowSharding rows{&saved_group(context), data["rows"].toInt()};
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor& y_gradient = gradients[0];
    Pending all{saved[0], {}, {}};
    if (share_tokens) all = start_gather_rows(saved[0], rows);
    const at::Tensor all_gradient = at::mm(y_gradient, in_out ? saved[1].t() : saved[1]);
    Pending x_gradient =
        share_tokens ? start_sum_to_rows(all_gradient, rows) : start_sum(all_gradient, *rows.group);
    const at::Tensor x = flat_tokens(all.wait());
    const at::Tensor weight_gradient =
        in_out ? at::mm(x.t(), y_gradient) : at::mm(y_gradient.t(), x);
    at::Tensor bias_gradient;
    if (data["bias"].toBool()) bias_gradient = y_gradient.sum(0);
    return {x_gradient.wait().view(saved[0].sizes()), weight_gradient, bias_gradient, {}, {}, {}};
  }
};

class ShardedLinear : public nn::Linear {
 public:
  ShardedLinear(ParameterHandle weight, ParameterHandle bias, nn::WeightOrder order, Ranks ranks)
      : weight_(std::move(weight)), bias_(std::move(bias)), order_(order), ranks_(ranks) {}

 protected:
  ParameterHandle weight_;
  ParameterHandle bias_;  // empty: none
  nn::WeightOrder order_;
  Ranks ranks_;
};

class FirstLinear : public ShardedLinear {
 public:
  using ShardedLinear::ShardedLinear;

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    const nn::LayerScope scope = nn::scope_of(weight_);
    return FirstProduct::apply(x, weight_.use(), bias_ ? bias_.use() : at::Tensor(),
                               order_ == nn::WeightOrder::in_out, ranks_.share_tokens,
                               ranks_.rows(context))
        .view({context.batch, context.sequence, -1});
  }
};

// The second product of a pair, of this rank's inputs.
class SecondLinear : public ShardedLinear {
 public:
  using ShardedLinear::ShardedLinear;

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    const nn::LayerScope scope = nn::scope_of(weight_);
    const at::Tensor weight = weight_.use();
    const at::Tensor part = at::linear(x, order_ == nn::WeightOrder::out_in ? weight : weight.t());
    const at::Tensor y = ranks_.end_pair(part, context);
    return bias_ ? y + bias_.use() : y;
  }
};

// Positions and sample ids of the tokens that this rank has, one each.
struct TokensHere {
  at::Tensor positions;  // [tokens here]
  std::vector<int64_t> sample_ids;

  TokensHere(const StepContext& context, const RowSharding& rows) {
    const Range here = rows.here();
    const at::Tensor token = at::arange(here.begin, here.end, context.positions.options());
    positions = context.positions.index_select(0, token.remainder(context.sequence));
    for (int64_t row = here.begin; row < here.end; ++row) {
      sample_ids.push_back(context.sample_ids[row / context.sequence]);
    }
  }
};

class TokenShareOfPositions : public nn::PositionEmbedding {
 public:
  TokenShareOfPositions(ParameterHandle weight, Ranks ranks)
      : weight_(std::move(weight)), ranks_(ranks) {}

  at::Tensor forward(const StepContext& context) override {
    const nn::LayerScope scope = nn::scope_of(weight_);
    return at::embedding(weight_.use(), TokensHere(context, ranks_.rows(context)).positions);
  }

 private:
  ParameterHandle weight_;
  Ranks ranks_;
};

class TokenShareDropout : public nn::Dropout {
 public:
  TokenShareDropout(std::string stream, double probability, Ranks ranks)
      : stream_(std::move(stream)), probability_(probability), ranks_(ranks) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override {
    if (!context.training || probability_ == 0) return x;
    const nn::LayerScope scope(stream_);
    const TokensHere tokens(context, ranks_.rows(context));
    return ops::dropout(x.unsqueeze(1), probability_,
                        random_key(context.seed, static_cast<uint64_t>(context.step), stream_),
                        tokens.sample_ids, tokens.positions.unsqueeze(1))
        .squeeze(1);
  }

 private:
  std::string stream_;
  double probability_;
  Ranks ranks_;
};

// The rows of a table that are here: one run.
Range rows_of(const ParameterHandle& weight) {
  const std::vector<Range>& runs = weight->placement.held.front();
  return runs.empty() ? Range{} : runs.front();
}

class VocabularyEmbedding : public nn::Embedding {
 public:
  VocabularyEmbedding(ParameterHandle weight, Ranks ranks)
      : weight_(std::move(weight)), ranks_(ranks) {}

  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override {
    const nn::LayerScope scope = nn::scope_of(weight_);
    const Range rows = rows_of(weight_);
    const at::Tensor local = tokens - rows.begin;
    const at::Tensor elsewhere = local.lt(0).bitwise_or_(local.ge(rows.size()));
    const at::Tensor found = at::embedding(weight_.use(), local.masked_fill(elsewhere, 0));
    return ranks_.end_pair(found.masked_fill(elsewhere.unsqueeze(-1), 0), context);
  }

 private:
  ParameterHandle weight_;
  Ranks ranks_;
};

class VocabularyHead : public nn::VocabularyHead {
 public:
  VocabularyHead(ParameterHandle weight, Ranks ranks) : weight_(std::move(weight)), ranks_(ranks) {}

  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override {
    const nn::LayerScope scope("vocabulary_head");
    const ops::VocabularyShard shard{
        .begin = rows_of(weight_).begin,
        .vocabulary = weight_->shape[0],
        .combine = [this](const at::Tensor& statistics) { combine(statistics); }};
    return ops::linear_cross_entropy(ranks_.begin_pair(x, context).flatten(0, 1), weight_.use(),
                                     labels.flatten(), shard);
  }

  at::Tensor logits(const at::Tensor& x, const StepContext& context, bool last_only) override {
    at::Tensor used = ranks_.begin_pair(x, context);
    if (last_only) used = used.narrow(1, context.sequence - 1, 1);
    const at::Tensor part = at::mm(weight_.use(), flat_tokens(used).t());  // [rows here, tokens]
    const at::Tensor all = gather_rows(part, {&ranks_.group, weight_->shape[0]});
    return all.t().contiguous().view({used.size(0), used.size(1), -1});
  }

 private:
  // See ops::VocabularyShard: three all-reduces of a number a token.
  void combine(const at::Tensor& statistics) const {
    const at::Tensor largest = statistics[0].clone();
    max_over_ranks(largest, ranks_.group);
    statistics[1].mul_((statistics[0] - largest).exp_());
    statistics[0].copy_(largest);
    comm::all_reduce(statistics.narrow(0, 1, 2).view(-1), ranks_.group, comm::Reason::tensor);
  }

  ParameterHandle weight_;
  Ranks ranks_;
};

std::vector<Range> all_of(int64_t size) {
  return {{0, size}};
}

}  // namespace

RowSharding Tensor1dRanks::rows(const StepContext& context) const {
  return {&group, context.batch * context.sequence};
}

at::Tensor Tensor1dRanks::begin_pair(const at::Tensor& x, const StepContext& context) const {
  if (!share_tokens) return sum_backward(x, group);
  return gather_rows(x, rows(context)).view({context.batch, context.sequence, -1});
}

at::Tensor Tensor1dRanks::end_pair(const at::Tensor& x, const StepContext& context) const {
  return share_tokens ? sum_to_rows(x.flatten(0, 1), rows(context)) : sum_forward(x, group);
}

Tensor1dBuilder::Tensor1dBuilder(const ParallelContext& context, Sharding sharding,
                                 nn::MakeAttention make_attention)
    : DenseBuilder(std::move(make_attention)),
      context_(context),
      ranks_{context.group(Axis::tp), context.strategy().tp_sequence},
      sharding_(std::move(sharding)) {}

nn::Placement Tensor1dBuilder::whole() const {
  if (ranks_.share_tokens) return {.reduction = &context_.data_and_tensor_group()};
  return {.num_replicas = ranks_.group.size(), .replica = ranks_.group.rank()};
}

ParameterHandle Tensor1dBuilder::vocabulary_table(const std::string& name,
                                                  const nn::EmbeddingOptions& options) {
  const Segment rows{options.vocabulary};
  return parameter(name, "weight", {options.vocabulary, options.features}, options.initializer,
                   {.held = {held_of_segments({&rows, 1}, ranks_.group.size(), ranks_.group.rank()),
                             all_of(options.features)}});
}

std::unique_ptr<nn::Embedding> Tensor1dBuilder::embedding(const std::string& name,
                                                          const nn::EmbeddingOptions& options) {
  return std::make_unique<VocabularyEmbedding>(vocabulary_table(name, options), ranks_);
}

std::unique_ptr<nn::PositionEmbedding> Tensor1dBuilder::position_embedding(
    const std::string& name, const nn::EmbeddingOptions& options) {
  if (!ranks_.share_tokens) return DenseBuilder::position_embedding(name, options);
  auto weight = parameter(name, "weight", {options.vocabulary, options.features},
                          options.initializer, whole());
  return std::make_unique<TokenShareOfPositions>(weight, ranks_);
}

std::unique_ptr<nn::Dropout> Tensor1dBuilder::dropout(const std::string& name, double probability) {
  if (!ranks_.share_tokens) return DenseBuilder::dropout(name, probability);
  return std::make_unique<TokenShareDropout>(full_name(name), probability, ranks_);
}

std::unique_ptr<nn::Linear> Tensor1dBuilder::linear(const std::string& name,
                                                    const nn::LinearOptions& options) {
  const auto found = sharding_.find(name);
  if (found == sharding_.end()) return DenseBuilder::linear(name, options);
  const LinearSharding& sharding = found->second;
  const std::vector<Range> held =
      held_of_segments(sharding.segments, ranks_.group.size(), ranks_.group.rank());
  const bool outputs = sharding.cut == Cut::outputs;
  const std::vector<Range> in = outputs ? all_of(options.in_features) : held;
  const std::vector<Range> out = outputs ? held : all_of(options.out_features);
  const bool in_out = options.order == nn::WeightOrder::in_out;
  nn::Placement of_weight, of_bias = outputs ? nn::Placement{.held = {out}} : whole();
  of_weight.held = in_out ? std::vector{in, out} : std::vector{out, in};
  auto [weight, bias] = linear_parameters(name, options, std::move(of_weight), std::move(of_bias));
  if (outputs) return std::make_unique<FirstLinear>(weight, bias, options.order, ranks_);
  return std::make_unique<SecondLinear>(weight, bias, options.order, ranks_);
}

std::unique_ptr<nn::Attention> Tensor1dBuilder::attention(const std::string& name,
                                                          const nn::AttentionOptions& options) {
  COLOSSAL_CHECK(options.heads == options.kv_heads, "{} heads, {} of keys and values",
                 options.heads, options.kv_heads);
  const Range heads = Partition(options.heads, ranks_.group.size()).range(ranks_.group.rank());
  nn::AttentionOptions here = options;
  here.heads = here.kv_heads = heads.size();
  return attention_of_heads(name, here, heads.begin);
}

std::unique_ptr<nn::VocabularyHead> Tensor1dBuilder::vocabulary_head(
    const std::string& name, const nn::EmbeddingOptions& options) {
  return make_head(vocabulary_table(name, options));
}

std::unique_ptr<nn::VocabularyHead> Tensor1dBuilder::make_head(ParameterHandle weight) {
  return std::make_unique<VocabularyHead>(std::move(weight), ranks_);
}

}  // namespace colossal::parallel
