// Norms of queries and keys right after their projection (QK-norm), and an attention layer with
// such a norm. See QueryKeyNormOptions.
#pragma once

#include <memory>
#include <utility>

#include "colossal/nn/layers.h"
#include "colossal/nn/norm_parts.h"

namespace colossal::nn {

// Heads on this rank, concatenated in this order: queries, keys, and as many values as keys.
struct HeadCounts {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_size = 0;
};

// The input and the result of both norms are the concatenated queries, keys and values, [..,
// (queries + 2 * keys) * head_size]. Values are unchanged.

class NormOfEachHead : public Norm {
 public:
  NormOfEachHead(NormParts queries, NormParts keys, const HeadCounts& here)
      : queries_(std::move(queries)), keys_(std::move(keys)), here_(here) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override;

 private:
  NormParts queries_, keys_;
  HeadCounts here_;
};

class NormOverAllHeads : public Norm {
 public:
  NormOverAllHeads(std::unique_ptr<Norm> queries, std::unique_ptr<Norm> keys,
                   const HeadCounts& here)
      : queries_(std::move(queries)), keys_(std::move(keys)), here_(here) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override;

 private:
  std::unique_ptr<Norm> queries_, keys_;
  HeadCounts here_;
};

// Applies the norm, then `attention`. So the norm comes before any exchange of heads between ranks
// that share a sequence.
class NormedAttention : public Attention {
 public:
  NormedAttention(std::unique_ptr<Norm> norm, std::unique_ptr<Attention> attention)
      : norm_(std::move(norm)), attention_(std::move(attention)) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override {
    return attention_->forward(norm_->forward(qkv, context), context);
  }

 private:
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Attention> attention_;
};

}  // namespace colossal::nn
