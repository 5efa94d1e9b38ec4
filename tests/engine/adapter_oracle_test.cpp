// Adapters of peft on models of transformers: logits, loss and gradients in fp64, from the folders
// that peft wrote.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "colossal/adapters/peft_folder.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/adapter_merge.h"
#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "tests/engine/oracle.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_pass.h"

namespace colossal::test::adapter_oracle {
namespace {

namespace fs = std::filesystem;

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).norm().item<double>(), 1e-9 * (1 + expected.norm().item<double>()))
      << what;
}

// A tensor of the model's files, by its name, as the model is to have it; null: as it is.
using Change = std::function<at::Tensor(const std::string& name, const at::Tensor& tensor)>;

// Whether merging makes two tables of one that the head shares with the embedding.
bool parts_tables(const models::ModelSpecification& adapted) {
  return adapted.transformer.tied_head &&
         !std::ranges::all_of(adapted.adapter->products, &adapters::Product::is_of_blocks);
}

// Of the model without an adapter.
at::Tensor logits_of_files(const models::ModelSpecification& adapted, const at::Tensor& inputs,
                           const nn::StepContext& context, const Change& change) {
  models::ModelSpecification plain = adapted;
  if (change && parts_tables(adapted)) plain.transformer.tied_head = false;
  plain.adapter.reset();
  nn::DenseBuilder build;
  const auto model = models::build_model(plain, build);
  const io::SafetensorsReader weights(plain.weights / "model.safetensors");
  const std::string table = models::slice_in_files(plain, "token_embedding.weight").name;
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    const TensorSlice slice = models::slice_in_files(plain, parameter->name);
    std::vector<at::Tensor> tensors;  // one, or one for each expert
    for (const std::string& name : slice.names()) {
      // A head without a tensor of its own begins as the embedding's table.
      tensors.push_back(read_tensor(weights, weights.find(name) ? name : table, at::kDouble));
      if (change) tensors.back() = change(name, tensors.back());
    }
    const at::Tensor tensor = slice.stacked.empty() ? tensors.front() : at::stack(tensors);
    std::vector<at::Tensor> rows{tensor};
    if (!slice.rows.empty()) rows.clear();
    for (const Range& run : slice.rows) rows.push_back(tensor.narrow(0, run.begin, run.size()));
    parameter->tensor = at::cat(rows);
  }
  return logits_of(*model, inputs, context);
}

void expect_merged(const models::ModelSpecification& adapted, const at::Tensor& inputs,
                   const nn::StepContext& context, const at::Tensor& logits) {
  const checkpoint::AdapterMerge merge(adapted);
  const auto merged = [&](const std::string& name, const at::Tensor& weight) {
    return merge.merged(name, weight);
  };
  expect_close(logits_of_files(adapted, inputs, context, merged), logits,
               "logits of merged weights");
}

void expect_like_peft(const fs::path& directory) {
  const models::ModelSpecification specification = models::with_adapter(
      models::resolve_model({.path = (directory / "model").string()}), directory / "adapter");
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);
  const io::SafetensorsReader weights(directory / "model" / "model.safetensors");
  const io::SafetensorsReader adapter(directory / "adapter" / adapters::kWeightsFile);
  const io::SafetensorsReader result(directory / "result.safetensors");
  const auto [of_model, of_adapter] = adapters::split_parameters(build.parameters());
  const auto read = [&](const io::SafetensorsReader& file, const char* prefix,
                        const nn::Parameter& parameter) {
    return read_parameter(file, prefix, models::slice_in_files(specification, parameter.name),
                          at::kDouble);
  };
  for (const nn::ParameterHandle& parameter : of_model) {
    parameter->tensor = read(weights, "", *parameter);
    EXPECT_FALSE(parameter->trainable) << parameter->name;
  }
  std::set<std::string> tensors;
  for (const nn::ParameterHandle& parameter : of_adapter) {
    parameter->tensor = read(adapter, "", *parameter).requires_grad_(true);
    ASSERT_EQ(parameter->tensor.sizes(), parameter->shape) << parameter->name;
    tensors.insert(models::slice_in_files(specification, parameter->name).name);
  }
  EXPECT_EQ(std::ssize(tensors), std::ranges::count_if(adapter.entries(), [](const auto& entry) {
              return !adapters::copied_module(entry.name);
            }));
  const at::Tensor tokens = read_tensor(result, "tokens", at::kDouble).to(at::kLong);
  const int64_t batch = tokens.size(0), sequence = tokens.size(1) - 1;
  const nn::StepContext context = nn::make_step_context(batch, sequence, at::kCPU);
  const at::Tensor inputs = tokens.narrow(1, 0, sequence), labels = tokens.narrow(1, 1, sequence);
  const at::Tensor logits = read_tensor(result, "logits", at::kDouble);
  expect_close(logits_of(*model, inputs, context), logits, "logits");
  if (specification.adapter->prefix) {  // no weight gives a prefix
    EXPECT_THROW(checkpoint::AdapterMerge{specification}, ConfigError);
  } else {
    expect_merged(specification, inputs, context, logits);
  }
  if (specification.adapter->trained.empty()) {
    nn::StepContext without = context;
    without.adapted = false;
    expect_close(logits_of(*model, inputs, without),
                 logits_of_files(specification, inputs, context, {}),
                 "logits with the adapter off");
  }
  const at::Tensor loss =
      loss_sum_of(*model, inputs, labels, context) / static_cast<double>(labels.numel());
  expect_close(loss.reshape({}), read_tensor(result, "loss", at::kDouble), "loss");
  torch::autograd::backward({loss}, {});
  for (const nn::ParameterHandle& parameter : of_adapter) {
    expect_close(parameter->tensor.grad(), read(result, "gradient.", *parameter), parameter->name);
  }
}

TEST(AdapterOracle, FoldersOfPeftComputeTheSame) {
  const TemporaryDirectory folder;
  run_oracle("adapter_oracle.py", folder.path(), "");
  int variants = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (!entry.is_directory()) continue;  // the oracle's log
    SCOPED_TRACE(entry.path().filename().string());
    expect_like_peft(entry.path());
    ++variants;
  }
  EXPECT_EQ(variants, 22);
}

}  // namespace
}  // namespace colossal::test::adapter_oracle
