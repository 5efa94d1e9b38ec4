// Layers of one process: what a model gets when no parallelism is declared. Sharded builders derive
// from it and make otherwise what is not whole on each rank.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"

namespace colossal::nn {

class DenseBuilder : public Builder {
 public:
  std::unique_ptr<Embedding> embedding(const std::string& name,
                                       const EmbeddingOptions& options) override;
  std::unique_ptr<PositionEmbedding> position_embedding(const std::string& name,
                                                        const EmbeddingOptions& options) override;
  std::unique_ptr<Linear> linear(const std::string& name, const LinearOptions& options) override;
  std::unique_ptr<Norm> layer_norm(const std::string& name, const NormOptions& options) override;
  std::unique_ptr<Dropout> dropout(const std::string& name, double probability) override;
  std::unique_ptr<Attention> attention(const std::string& name,
                                       const AttentionOptions& options) override;
  std::unique_ptr<VocabularyHead> vocabulary_head(const std::string& name,
                                                  const EmbeddingOptions& options) override;
  std::unique_ptr<VocabularyHead> tied_vocabulary_head(const std::string& embedding_name,
                                                       const EmbeddingOptions& options) override;

  const ParameterList& parameters() const override { return parameters_; }

 protected:
  void enter(const std::string& name) override { path_.push_back(name); }
  void leave() override { path_.pop_back(); }

  // The placement of what every rank holds whole.
  virtual Placement whole() const { return {}; }
  virtual std::unique_ptr<VocabularyHead> make_head(ParameterHandle weight);

  std::string full_name(const std::string& name) const;
  ParameterHandle parameter(const std::string& layer, const std::string& name,
                            std::vector<int64_t> shape, Initializer initializer,
                            Placement placement);
  // Weight and bias (empty where there is none) of a product.
  std::pair<ParameterHandle, ParameterHandle> linear_parameters(const std::string& name,
                                                                const LinearOptions& options,
                                                                Placement of_weight,
                                                                Placement of_bias);

 private:
  std::vector<std::string> path_;
  ParameterList parameters_;
};

}  // namespace colossal::nn
