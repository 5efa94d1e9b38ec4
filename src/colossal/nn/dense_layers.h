// The dense layers behind DenseBuilder. Activations are [batch, sequence, features].
#pragma once

#include <string>

#include "colossal/nn/builder.h"
#include "colossal/ops/attention.h"

namespace colossal::nn {

class DenseEmbedding : public Embedding {
 public:
  explicit DenseEmbedding(ParameterHandle weight) : weight_(std::move(weight)) {}
  at::Tensor forward(const at::Tensor& tokens, const StepContext& context) override;

 private:
  ParameterHandle weight_;
};

class DensePositionEmbedding : public PositionEmbedding {
 public:
  explicit DensePositionEmbedding(ParameterHandle weight) : weight_(std::move(weight)) {}
  at::Tensor forward(const StepContext& context) override;

 private:
  ParameterHandle weight_;
};

class DenseLinear : public Linear {
 public:
  DenseLinear(ParameterHandle weight, ParameterHandle bias, WeightOrder order)
      : weight_(std::move(weight)), bias_(std::move(bias)), order_(order) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  ParameterHandle weight_;
  ParameterHandle bias_;  // empty: none
  WeightOrder order_;
};

class DenseLayerNorm : public Norm {
 public:
  DenseLayerNorm(ParameterHandle weight, ParameterHandle bias, double epsilon)
      : weight_(std::move(weight)), bias_(std::move(bias)), epsilon_(epsilon) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  ParameterHandle weight_;
  ParameterHandle bias_;
  double epsilon_;
};

class DenseDropout : public Dropout {
 public:
  DenseDropout(std::string stream, double probability)
      : stream_(std::move(stream)), probability_(probability) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  std::string stream_;  // names the random numbers: distinct for each layer
  double probability_;
};

class DenseAttention : public Attention {
 public:
  // head_begin: of the model's heads the first that is here.
  DenseAttention(std::string stream, const AttentionOptions& options, int64_t head_begin)
      : stream_(std::move(stream)), options_(options), head_begin_(head_begin) {}
  at::Tensor forward(const at::Tensor& qkv, const StepContext& context) override;

 protected:
  // From queries, keys and values of the positions here, [batch, heads, sequence, head_size], to
  // what the queries see, of the same shape.
  virtual at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const ops::AttentionOptions& options,
                            const StepContext& context) const;

 private:
  std::string stream_;
  AttentionOptions options_;
  int64_t head_begin_;
};

class DenseVocabularyHead : public VocabularyHead {
 public:
  explicit DenseVocabularyHead(ParameterHandle weight) : weight_(std::move(weight)) {}
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override;
  at::Tensor logits(const at::Tensor& x, const StepContext& context, bool last_only) override;

 private:
  ParameterHandle weight_;
};

}  // namespace colossal::nn
