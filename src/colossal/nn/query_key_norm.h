// Norms of queries and keys between their projection and attention (QK-norm), and an attention
// layer that begins with such a norm. Builders make them according to QueryKeyNormOptions
// (builder.h). The input and the result of both norm classes are the concatenated queries, keys and
// values of this rank's heads, [.., (queries + 2 * keys) * head_size]. Values are copied.
#pragma once

#include <memory>
#include <utility>

#include "colossal/nn/layers.h"
#include "colossal/nn/norm_parts.h"

namespace colossal::nn {

struct HeadCounts {
  int64_t queries = 0;    // query heads on this rank
  int64_t keys = 0;       // key heads on this rank, and as many value heads
  int64_t head_size = 0;  // features of a query, key or value head
};

// Normalizes each query head and each key head by itself.
class NormOfEachHead : public Norm {
 public:
  // queries, keys: weight and bias are [heads on this rank, head_size], or [head_size] if all heads
  // share them. The two norms must have equal other settings (epsilon, unit_offset, centered).
  NormOfEachHead(NormParts queries, NormParts keys, const HeadCounts& here)
      : queries_(std::move(queries)), keys_(std::move(keys)), here_(here) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override;

 private:
  NormParts queries_, keys_;
  HeadCounts here_;
};

// Normalizes all query heads of a token together, and all key heads of a token together. The heads
// of other ranks count as well, if ranks of tp divide the heads.
class NormOverAllHeads : public Norm {
 public:
  // queries, keys: the norms to apply to the concatenated query heads, and key heads, of this rank.
  // If ranks divide the heads, these norms must sum their statistics over the ranks.
  NormOverAllHeads(std::unique_ptr<Norm> queries, std::unique_ptr<Norm> keys,
                   const HeadCounts& here)
      : queries_(std::move(queries)), keys_(std::move(keys)), here_(here) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override;

 private:
  std::unique_ptr<Norm> queries_, keys_;
  HeadCounts here_;
};

// Applies the norm, then `attention`. If ranks that share a sequence exchange heads, `attention`
// does so, after the norm.
class NormedAttention : public Attention {
 public:
  NormedAttention(std::unique_ptr<Norm> norm, std::unique_ptr<Attention> attention)
      : norm_(std::move(norm)), attention_(std::move(attention)) {}
  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                     const StepContext& context) override {
    return attention_->forward(norm_->forward(qkv, context), relative_bias, context);
  }

 private:
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Attention> attention_;
};

}  // namespace colossal::nn
