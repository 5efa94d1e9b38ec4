// Attention behind virtual tokens equals attention to keys and values of which they are the first.
#include "colossal/ops/attention/virtual_tokens.h"
#include "colossal/data/text_batch.h"

#include <gtest/gtest.h>

#include "tests/ops/attention_kinds.h"

namespace colossal::ops::behind_virtual {
namespace {

constexpr int64_t kBatch = 3, kHeads = 3, kTokens = 7, kSize = 8, kValueSize = 12;

struct Leaves {
  Inputs inputs;
  VirtualTokens tokens;
};

Leaves make_leaves(const AttentionKind& kind, int64_t queries, int64_t keys, at::ScalarType type) {
  const Shape shape{kBatch, kHeads, kind.kv_heads, queries, keys, kSize, kValueSize};
  Inputs inputs = kind.inputs(shape).to(type);
  const auto leaf = [&](at::IntArrayRef sizes, uint64_t seed) {
    return normal(sizes, at::kBFloat16, seed).to(type).requires_grad_();
  };
  for (at::Tensor* tensor : {&inputs.query, &inputs.key, &inputs.value, &inputs.sinks}) {
    if (tensor->defined()) *tensor = tensor->detach().requires_grad_();
  }
  return {
      inputs,
      {leaf({kind.kv_heads, kTokens, kSize}, 21), leaf({kind.kv_heads, kTokens, kValueSize}, 22)}};
}

Results differentiated(const Leaves& leaves, const at::Tensor& output) {
  std::vector<at::Tensor> all{leaves.inputs.query, leaves.inputs.key, leaves.inputs.value,
                              leaves.tokens.keys, leaves.tokens.values};
  if (leaves.inputs.sinks.defined()) all.push_back(leaves.inputs.sinks);
  Results results{output.detach(),
                  torch::autograd::grad({output}, all, {leaves.inputs.gradient},
                                        /*retain_graph=*/std::nullopt, /*create_graph=*/false,
                                        /*allow_unused=*/true)};
  for (size_t i = 0; i < all.size(); ++i) {  // none where a window hides all virtual tokens
    if (!results.gradients[i].defined()) results.gradients[i] = at::zeros_like(all[i]);
  }
  return results;
}

at::Tensor with_virtual(const at::Tensor& tokens, const at::Tensor& x) {
  return at::cat({tokens.unsqueeze(0).expand({x.size(0), -1, -1, -1}), x}, 2);
}

// Of some positions of one sample, or of all of all samples.
at::Tensor attention_to_all(const Leaves& leaves, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, AttentionOptions options) {
  options.sinks = leaves.inputs.sinks;
  return attention(query, with_virtual(leaves.tokens.keys, key),
                   with_virtual(leaves.tokens.values, value), options);
}

// Document by document: each begins behind the virtual tokens.
at::Tensor attention_by_documents(const Leaves& leaves, AttentionOptions options) {
  const at::Tensor documents = std::exchange(options.documents, {});
  std::vector<at::Tensor> samples;
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    const at::Tensor of_sample = documents[sample];
    std::vector<at::Tensor> parts;
    for (int64_t begin = 0, end = 0; begin < of_sample.size(0); begin = end) {
      while (end < of_sample.size(0) && of_sample[end].equal(of_sample[begin])) ++end;
      const auto cut = [&](const at::Tensor& x) {
        return x.narrow(0, sample, 1).narrow(2, begin, end - begin);
      };
      parts.push_back(attention_to_all(leaves, cut(leaves.inputs.query), cut(leaves.inputs.key),
                                       cut(leaves.inputs.value), options));
    }
    samples.push_back(at::cat(parts, 2));
  }
  return at::cat(samples);
}

// Runs of neighbours of uneven lengths, none of which comes back.
at::Tensor apart(int64_t positions) {
  const at::Tensor column = at::arange(positions, at::kLong);
  return at::stack(
      {column.div(9, "floor"), column.div(positions, "floor"), (column + 5).div(13, "floor")});
}

void expect_right(const AttentionKind& kind, int64_t queries, int64_t keys, at::ScalarType type) {
  const Shape shape{kBatch, kHeads, kind.kv_heads, queries, keys, kSize, kValueSize};
  AttentionOptions options = kind.options(shape);
  if (kind.documents) options.documents = apart(keys);
  const Leaves wide = make_leaves(kind, queries, keys, at::kDouble),
               leaves = make_leaves(kind, queries, keys, type);
  const at::Tensor expected =
      kind.documents
          ? attention_by_documents(wide, options)
          : attention_to_all(wide, wide.inputs.query, wide.inputs.key, wide.inputs.value, options);
  options.sinks = leaves.inputs.sinks;
  options.virtual_tokens = leaves.tokens;
  const at::Tensor found =
      attention(leaves.inputs.query, leaves.inputs.key, leaves.inputs.value, options);
  expect_all_near(differentiated(leaves, found), differentiated(wide, expected),
                  tolerance_of(type));
}

TEST(VirtualTokens, OfEveryKindAreTheFirstKeys) {
  for (AttentionKind kind : attention_kinds()) {
    kind.causal = true;
    kind.prefix = false;
    kind.dropout &= !kind.documents;  // which the definition would draw document by document
    SCOPED_TRACE(kind.name());
    for (const at::ScalarType type : all_types()) {
      SCOPED_TRACE(c10::toString(type));
      expect_right(kind, 33, 33, type);
      if (!kind.documents) expect_right(kind, 5, 33, type);
    }
  }
}

// Distances to virtual tokens are those in a document, whatever comes before it.
TEST(VirtualTokens, ComeBeforeEveryDocument) {
  for (const bool alibi : {false, true}) {
    for (const int64_t window : {0, 2, 9, 45}) {
      SCOPED_TRACE(fmt::format("alibi {}, window {}", alibi, window));
      expect_right(
          {.causal = true, .window = window, .alibi = alibi, .documents = true, .kv_heads = 1}, 33,
          33, at::kDouble);
    }
  }
}

// What a rank that holds no sequence of a micro-batch asks for.
TEST(VirtualTokens, OfNoSequenceHaveNoGradient) {
  const Leaves leaves = make_leaves({.causal = true, .kv_heads = 3}, 4, 4, at::kDouble);
  const auto none = [](const at::Tensor& x) { return x.narrow(0, 0, 0); };
  const at::Tensor found =
      attention(none(leaves.inputs.query), none(leaves.inputs.key), none(leaves.inputs.value),
                {.scale = 0.3, .virtual_tokens = leaves.tokens});
  EXPECT_EQ(found.size(0), 0);
  const auto gradients =
      torch::autograd::grad({found}, {leaves.tokens.keys}, {at::zeros_like(found)});
  EXPECT_TRUE(gradients[0].equal(at::zeros_like(leaves.tokens.keys)));
}

}  // namespace
}  // namespace colossal::ops::behind_virtual
