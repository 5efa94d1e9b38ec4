// Attention to packed documents on a GPU: flash attention computes each alone, and equals the
// fallback, which masks.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/fallback/fallbacks.h"

namespace colossal::ops {
namespace {

// Counts calls of LibTorch's flash attention.
class CountedCalls {
 public:
  CountedCalls()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}))) {
    calls = 0;
  }
  ~CountedCalls() { at::removeCallback(handle_); }
  CountedCalls(const CountedCalls&) = delete;
  CountedCalls& operator=(const CountedCalls&) = delete;

  static int number() { return calls; }

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    const std::string name = function.name();
    if (name.starts_with("aten::_flash_attention")) ++calls;
    return nullptr;
  }
  static inline std::atomic<int> calls = 0;
  at::CallbackHandle handle_;
};

// The output, and the gradients of queries, keys, values and sinks.
std::vector<at::Tensor> results_of(const AttentionOptions& options, std::vector<at::Tensor> inputs,
                                   const at::Tensor& sinks) {
  for (at::Tensor& input : inputs) input = input.detach().clone().requires_grad_();
  AttentionOptions here = options;
  if (sinks.defined()) inputs.push_back(here.sinks = sinks.detach().clone().requires_grad_());
  const at::Tensor output = attention(inputs[0], inputs[1], inputs[2], here);
  at::Tensor weights = at::arange(output.numel(), output.options()).view(output.sizes()).sin();
  output.backward(weights);
  std::vector<at::Tensor> results{output};
  for (const at::Tensor& input : inputs) results.push_back(input.grad());
  for (at::Tensor& result : results) result = result.detach().cpu().to(at::kFloat);
  return results;
}

void expect_equal(AttentionOptions options, int64_t head_size, bool has_sinks) {
  constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kLength = 9;
  const at::TensorOptions bf16(at::kBFloat16);
  const auto made = [&](int64_t heads, int64_t size) {
    return at::randn({kBatch, kLength, heads, size}).to(bf16).to(at::kCUDA).transpose(1, 2);
  };
  const std::vector<at::Tensor> inputs{made(kHeads, head_size), made(kKeyHeads, head_size),
                                       made(kKeyHeads, 16)};
  const at::Tensor sinks = has_sinks ? at::randn({kHeads}).to(bf16).to(at::kCUDA) : at::Tensor();
  const at::Tensor documents =
      at::tensor({5, 5, 5, 6, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong);
  options.documents = documents.view({kBatch, kLength}).to(at::kCUDA);
  const int64_t fallbacks = num_fallbacks();
  const std::vector<at::Tensor> masked = results_of(options, inputs, sinks);
  EXPECT_EQ(CountedCalls::number(), 0);
  EXPECT_EQ(num_fallbacks(), fallbacks + 2);
  const std::vector<int64_t> lengths{3, 1, 5, 8, 1};
  options.document_lengths = lengths;
  const std::vector<at::Tensor> alone = results_of(options, inputs, sinks);
  EXPECT_EQ(CountedCalls::number(), 2);
  EXPECT_EQ(num_fallbacks(), fallbacks + 2);
  ASSERT_EQ(alone.size(), masked.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_LE((alone[i] - masked[i]).abs().max().item<float>(), 0.02F) << "result " << i;
  }
}

TEST(DocumentAttention, EqualsTheFallback) {
  for (const bool causal : {true, false}) {
    for (const int64_t window : {0, 2}) {
      for (const bool has_sinks : {false, true}) {
        SCOPED_TRACE(::testing::Message() << causal << window << has_sinks);
        const CountedCalls calls;
        at::Generator(at::detail::getDefaultCPUGenerator()).set_current_seed(3);
        expect_equal({.causal = causal, .window = window}, has_sinks ? 16 : 12, has_sinks);
      }
    }
  }
}

// As of a rank that has no sequences in an evaluation: flash attention does not take it.
TEST(DocumentAttention, OfNoRowsIsEmpty) {
  const CountedCalls calls;
  const int64_t fallbacks = num_fallbacks();
  const at::Tensor none =
      at::empty({0, 2, 9, 16}, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  EXPECT_EQ(attention(none, none, none, {}).sizes(), none.sizes());
  EXPECT_EQ(CountedCalls::number(), 0);
  EXPECT_EQ(num_fallbacks(), fallbacks);
}

}  // namespace
}  // namespace colossal::ops
