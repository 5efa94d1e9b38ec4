#include "colossal/parallel/sequence/ring.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/layout/runs.h"
#include "colossal/layout/zigzag.h"
#include "colossal/nn/dense_layers.h"
#include "colossal/ops/attention/virtual_tokens.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using ops::AttentionPart;
using ops::AttentionResult;
using ops::AttentionRule;
using ops::VirtualTokens;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A sequence whose blocks, one per rank, travel around the ranks. A hop gives each rank the block
// of its previous rank.
struct Ring {
  const comm::Group* group = nullptr;
  int64_t sequence = 0;  // number of positions of all ranks

  int size() const { return group->size(); }
  // Returns the positions of the block that this rank holds after `hops` hops.
  std::vector<Range> positions(int hops) const {
    return zigzag_runs(sequence, size(), (group->rank() + size() - hops % size()) % size());
  }
  int64_t num_positions(int hops) const { return num_indices(positions(hops)); }

  // Starts hop number `hop` of a block [batch, positions, heads, head_size + value_size].
  Pending start_hop(const at::Tensor& block, int hop) const {
    std::vector<int64_t> shape = block.sizes().vec();
    shape[1] = num_positions(hop);
    const at::Tensor next = at::empty(shape, block.options());
    return {next, block,
            comm::rotate_async(block.view(-1), next.view(-1), *group, comm::Reason::sequence)};
  }
};

// Joins keys and values, [batch, heads, positions, size] each, in one block, which travels as one
// message.
at::Tensor join(const at::Tensor& keys, const at::Tensor& values) {
  return at::cat({keys.transpose(1, 2), values.transpose(1, 2)}, -1);
}
at::Tensor keys_of(const at::Tensor& block, int64_t head_size) {
  return block.narrow(-1, 0, head_size).transpose(1, 2);
}
at::Tensor values_of(const at::Tensor& block, int64_t head_size) {
  return block.narrow(-1, head_size, block.size(-1) - head_size).transpose(1, 2);
}

// Returns [batch, heads, positions, head_size], stored as an activation: heads are dim 2 in memory.
at::Tensor empty_like_heads(const at::Tensor& like, at::ScalarType type) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)},
                   like.options().dtype(type))
      .transpose(1, 2);
}

at::Tensor columns(const at::Tensor& x, const std::vector<Range>& runs) {
  std::vector<at::Tensor> parts;
  for (const Range& run : runs) parts.push_back(x.narrow(1, run.begin, run.size()));
  return at::cat(parts, 1);
}

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const std::optional<at::Tensor>& sinks,
                            const std::optional<at::Tensor>& relative_bias,
                            const std::optional<at::Tensor>& virtual_keys,
                            const std::optional<at::Tensor>& virtual_values,
                            const ops::AttentionOptions& options, const Ring& ring) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const AttentionRule rule(options, query.size(3));
    const AttentionResult result = ops::empty_attention_result(query, value.size(3));
    const at::Tensor of_heads = sinks.value_or(at::Tensor());
    const VirtualTokens tokens{virtual_keys.value_or(at::Tensor()),
                               virtual_values.value_or(at::Tensor())};
    at::Tensor block = join(key, value);
    for (int hop = 0; hop < ring.size(); ++hop) {
      const bool is_last = hop + 1 == ring.size();
      Pending next;
      if (!is_last) next = ring.start_hop(block, hop + 1);
      AttentionPart here = part(query, block, options.documents, ring, hop, tokens.count());
      here.sinks = of_heads;
      here.relative_bias = relative_bias.value_or(at::Tensor());
      ops::attend(here, rule, /*accumulate=*/hop > 0, result);
      block = next.wait();
    }
    if (tokens.count() > 0) {
      ops::attend_virtual_tokens({query, ring.positions(0), options.documents}, tokens, rule,
                                 result);
    }
    const at::Tensor output = result.output.to(query.scalar_type());
    context->save_for_backward({query, key, value, output, result.logsumexp, options.documents,
                                of_heads, tokens.keys, tokens.values,
                                relative_bias.value_or(at::Tensor())});
    rule.save(context);
    save_group(context, *ring.group);
    context->saved_data["sequence"] = ring.sequence;
    return output;
  }

  // The gradients of a block follow the block one hop behind: the sum of earlier ranks arrives
  // while this rank computes its own gradients.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const AttentionResult result{saved[3], saved[4]};
    const AttentionRule rule = AttentionRule::saved(context);
    const Ring ring{&saved_group(context), context->saved_data["sequence"].toInt()};
    const VirtualTokens tokens{saved[7], saved[8]};
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::ScalarType sum_type = result.logsumexp.scalar_type();
    const int64_t head_size = query.size(3);
    const at::Tensor query_gradient = empty_like_heads(query, sum_type);
    const at::Tensor& bias = saved[9];
    at::Tensor of_bias;
    if (bias.defined()) of_bias = at::zeros(bias.sizes(), bias.options().dtype(sum_type));
    at::Tensor block = join(saved[1], saved[2]);
    Pending of_earlier_ranks;
    for (int hop = 0; hop < ring.size(); ++hop) {
      const bool is_last = hop + 1 == ring.size();
      Pending next;
      if (!is_last) next = ring.start_hop(block, hop + 1);
      const at::Tensor block_gradient = at::empty(block.sizes(), block.options().dtype(sum_type));
      AttentionPart here = part(query, block, saved[5], ring, hop, tokens.count());
      here.relative_bias = bias;
      ops::attend_backward(here, rule, /*accumulate=*/hop > 0, result, gradients[0],
                           {query_gradient, keys_of(block_gradient, head_size),
                            values_of(block_gradient, head_size), of_bias});
      if (hop > 0) block_gradient.add_(std::exchange(of_earlier_ranks, {}).wait());
      of_earlier_ranks = ring.start_hop(block_gradient, hop + 1);
      block = next.wait();
    }
    const at::Tensor own = of_earlier_ranks.wait();
    const at::ScalarType type = query.scalar_type();
    at::Tensor of_sinks;
    if (saved[6].defined()) of_sinks = ops::sink_gradient(saved[6], result, gradients[0]);
    VirtualTokens of_tokens;
    if (tokens.count() > 0) {
      of_tokens = ops::attend_virtual_tokens_backward({query, ring.positions(0), saved[5]}, tokens,
                                                      rule, result, gradients[0], query_gradient);
      of_tokens = {of_tokens.keys.to(type), of_tokens.values.to(type)};
    }
    return {query_gradient.to(type),
            keys_of(own, head_size).to(type),
            values_of(own, head_size).to(type),
            of_sinks,
            bias.defined() ? of_bias.to(bias.scalar_type()) : of_bias,
            of_tokens.keys,
            of_tokens.values,
            {},
            {}};
  }

 private:
  // Returns the attention of this rank's queries to the block that it holds after `hop` hops; all
  // positions come after the virtual tokens. documents: [batch, sequence], or undefined.
  static AttentionPart part(const at::Tensor& query, const at::Tensor& block,
                            const at::Tensor& documents, const Ring& ring, int hop,
                            int64_t virtual_tokens) {
    AttentionPart part{query, keys_of(block, query.size(3)), values_of(block, query.size(3)),
                       ops::behind_virtual_tokens(ring.positions(0), virtual_tokens),
                       ops::behind_virtual_tokens(ring.positions(hop), virtual_tokens)};
    if (documents.defined()) {
      part.query_documents = columns(documents, ring.positions(0));
      part.key_documents = columns(documents, ring.positions(hop));
    }
    return part;
  }
};

class RingLayer : public nn::DenseAttention {
 public:
  RingLayer(std::string stream, const nn::AttentionOptions& options, const nn::LocalHeads& here,
            const nn::AttentionParameters& parameters, const comm::Group& group)
      : DenseAttention(std::move(stream), options, here, parameters), group_(group) {}

 protected:
  at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                    const ops::AttentionOptions& options,
                    const nn::StepContext& context) const override {
    const auto if_defined = [](const at::Tensor& tensor) {
      return tensor.defined() ? std::optional(tensor) : std::nullopt;
    };
    return RingAttention::apply(
        queries, keys, values, if_defined(options.sinks), if_defined(options.relative_bias),
        if_defined(options.virtual_tokens.keys), if_defined(options.virtual_tokens.values), options,
        Ring{&group_, context.tokens().whole_sequence});
  }

 private:
  const comm::Group& group_;
};

}  // namespace

nn::MakeAttention make_ring_attention(const comm::Group& group) {
  return [&group](std::string stream, const nn::AttentionOptions& options,
                  const nn::LocalHeads& here, const nn::AttentionParameters& parameters) {
    return std::make_unique<RingLayer>(std::move(stream), options, here, parameters, group);
  };
}

}  // namespace colossal::parallel
