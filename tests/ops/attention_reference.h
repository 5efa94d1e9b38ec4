// Attention as its formula says, with all scores at once, and what tests compare with it.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "colossal/ops/attention/attention.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {

struct Shape {
  int64_t batch, heads, kv_heads, sequence, keys, head_size, value_size;
};

struct Inputs {
  at::Tensor query, key, value, gradient;
  at::Tensor sinks{};  // undefined: none
  at::Tensor bias{};   // AttentionOptions::relative_bias; undefined: none

  Inputs to(at::ScalarType type) const {
    return {query.to(type),
            key.to(type),
            value.to(type),
            gradient.to(type),
            sinks.defined() ? sinks.to(type) : sinks,
            bias.defined() ? bias.to(type) : bias};
  }
};

// Rounded to bf16, so that every type starts from the same numbers. Views whose heads lie side by
// side in memory, as the projections give them.
inline Inputs make_inputs(const Shape& s) {
  const auto make = [](at::IntArrayRef sizes, uint64_t seed) {
    return normal(sizes, at::kBFloat16, seed).to(at::kDouble).transpose(1, 2);
  };
  return {make({s.batch, s.sequence, s.heads, s.head_size}, 1),
          make({s.batch, s.keys, s.kv_heads, s.head_size}, 2),
          make({s.batch, s.keys, s.kv_heads, s.value_size}, 3),
          make({s.batch, s.sequence, s.heads, s.value_size}, 4)};
}

// Ids of documents, [batch, keys]: runs of uneven lengths, one of which comes back later.
inline at::Tensor make_documents(const Shape& s) {
  const at::Tensor documents = at::empty({s.batch, s.keys}, at::kLong);
  auto ids = documents.accessor<int64_t, 2>();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t k = 0; k < s.keys; ++k) {
      const int64_t run = (k + 11 * b) / 37;
      ids[b][k] = run == 3 ? int64_t{1} << 40 : run % 5 - 2;
    }
  }
  return documents;
}

inline const AttentionOptions kCausal{.causal = true, .scale = 0.2};
inline const AttentionOptions kFull{.causal = false, .scale = 0.2};

inline AttentionOptions with_dropout(AttentionOptions options) {
  options.dropout = 0.2;
  options.random_key = random_key(1, 2, "blocks.3.attention");
  options.sample_ids = kSamples;
  return options;
}

using Runs = std::vector<Range>;

inline at::Tensor positions_of(const Runs& runs) {
  std::vector<at::Tensor> parts{at::empty({0}, at::kLong)};
  for (const Range& run : runs) parts.push_back(at::arange(run.begin, run.end, at::kLong));
  return at::cat(parts);
}

// The mask of dropout that options describe, [batch, heads, sequence, keys]: factors 0 or 1 / (1 -
// p). Drawn number by number.
inline at::Tensor mask_of(const Shape& s, const AttentionOptions& options) {
  at::Tensor mask = at::ones({s.batch, s.heads, s.sequence, s.keys}, at::kDouble);
  if (options.dropout == 0) return mask;
  auto factors = mask.accessor<double, 4>();
  const at::Tensor positions = options.query_positions.empty()
                                   ? at::arange(s.keys - s.sequence, s.keys)
                                   : positions_of(options.query_positions);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const RandomKey key = random_subkey(options.random_key, options.head_begin + h);
      for (int64_t q = 0; q < s.sequence; ++q) {
        const RandomRow row = random_row(key, options.sample_ids[b], positions[q].item<int64_t>());
        uint32_t words[kRandomGroup];
        for (int64_t k = 0; k < s.keys; ++k) {
          if (k % kRandomGroup == 0) random_words(row, k / kRandomGroup, words);
          const bool dropped = words[k % kRandomGroup] < options.dropout * 0x1p32;
          factors[b][h][q][k] = dropped ? 0 : 1 / (1 - options.dropout);
        }
      }
    }
  }
  return mask;
}

// What Bf16Product promises, one number at a time.
inline void scalar_product(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                           int64_t c_stride, bool add, const at::BFloat16* a, const at::BFloat16* b,
                           float* c) {
  ASSERT_EQ(k % 2, 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = add ? c[i * c_stride + j] : 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<float>(a[i * a_stride + p]) *
               static_cast<float>(b[(p / 2 * b_stride + j) * 2 + p % 2]);
      }
      c[i * c_stride + j] = sum;
    }
  }
}

struct Results {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of query, key, value, and sinks and bias if there are any
};

inline Results differentiate(const Inputs& in,
                             const std::function<at::Tensor(const Inputs&)>& function) {
  const Inputs leaves{in.query.detach().requires_grad_(),
                      in.key.detach().requires_grad_(),
                      in.value.detach().requires_grad_(),
                      in.gradient,
                      in.sinks.defined() ? in.sinks.detach().requires_grad_() : in.sinks,
                      in.bias.defined() ? in.bias.detach().requires_grad_() : in.bias};
  const at::Tensor output = function(leaves);
  std::vector<at::Tensor> all{leaves.query, leaves.key, leaves.value};
  if (in.sinks.defined()) all.push_back(leaves.sinks);
  if (in.bias.defined()) all.push_back(leaves.bias);
  return {output.detach(), torch::autograd::grad({output}, all, {in.gradient})};
}

// Which keys each query sees, [batch or 1, 1, sequence, keys].
inline at::Tensor seen_keys(int64_t sequence, int64_t keys, const AttentionOptions& options) {
  const at::Tensor of_keys = at::arange(keys, at::kLong);
  const at::Tensor after =
      of_keys - (at::arange(sequence, at::kLong) + (keys - sequence)).unsqueeze(1);
  at::Tensor seen = at::ones({1, 1, sequence, keys}, at::kBool);
  if (options.causal) seen = seen.logical_and(after.le(0));
  if (options.window > 0) seen = seen.logical_and(after.abs().lt(options.window));
  if (!options.prefix_lengths.empty()) {
    std::vector<at::Tensor> of_samples;
    for (const int64_t length : options.prefix_lengths) {
      of_samples.push_back(seen.logical_or(of_keys.lt(length)));
    }
    seen = at::cat(of_samples);
  }
  if (options.documents.defined()) {
    const at::Tensor of_queries = options.documents.narrow(1, keys - sequence, sequence);
    const at::Tensor same = of_queries.unsqueeze(2).eq(options.documents.unsqueeze(1));
    seen = seen.logical_and(same.unsqueeze(1));
  }
  return seen;
}

// Written out, in the inputs' type.
inline Results reference(const Inputs& in, const AttentionOptions& options,
                         const at::Tensor& mask) {
  return differentiate(in, [&](const Inputs& x) {
    const int64_t group = x.query.size(1) / x.key.size(1);
    const at::Tensor key = x.key.repeat_interleave(group, 1);
    const at::Tensor value = x.value.repeat_interleave(group, 1);
    const at::Tensor seen = seen_keys(x.query.size(2), x.key.size(2), options);
    at::Tensor scores = at::matmul(x.query, key.transpose(2, 3)) * options.scale;
    if (options.soft_cap > 0) scores = (scores / options.soft_cap).tanh() * options.soft_cap;
    const int64_t keys = key.size(2), queries = x.query.size(2);
    for (size_t head = 0; head < options.alibi_slopes.size(); ++head) {
      const at::Tensor of_queries = at::arange(keys - queries, keys, scores.options()).unsqueeze(1);
      const at::Tensor distances = at::arange(keys, scores.options()) - of_queries;
      scores.select(1, static_cast<int64_t>(head)).add_(distances * options.alibi_slopes[head]);
    }
    if (x.bias.defined()) {
      const int64_t most = x.bias.size(1) / 2;
      const at::Tensor of_queries = at::arange(keys - queries, keys, at::kLong).unsqueeze(1);
      const at::Tensor distances = at::arange(keys, at::kLong) - of_queries;
      const at::Tensor columns = distances.clamp(-most, most) + most;
      scores = scores + x.bias.index({at::indexing::Slice(), columns});
    }
    scores = scores.masked_fill(seen.logical_not(), -INFINITY);
    if (x.sinks.defined()) {
      const at::Tensor of_sinks = x.sinks.view({1, -1, 1, 1});
      scores = at::cat({scores, of_sinks.expand({scores.size(0), -1, queries, 1})}, 3);
    }
    const at::Tensor probabilities = scores.softmax(-1).narrow(3, 0, keys);
    return at::matmul(probabilities * mask.to(x.query.scalar_type()), value);
  });
}

inline void expect_all_near(const Results& a, const Results& b, double tolerance) {
  {
    SCOPED_TRACE("output");
    expect_near(a.output, b.output, tolerance);
  }
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < b.gradients.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "gradient " << i);
    expect_near(a.gradients[i], b.gradients[i], tolerance);
  }
}

}  // namespace colossal::ops
