// Scopes for saved tensors beside an autograd engine with hooks of its own, such as Python's.
#include "colossal/memory/saved_tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <utility>

namespace colossal::memory {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

// Counts tensors, and doubles what it gives back.
class CountingHooks final : public SavedVariableHooks {
 public:
  explicit CountingHooks(int& packed) : packed_(packed) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    ++packed_;
    tensor_ = tensor.tensor_data();
  }
  at::Tensor call_unpack_hook() override { return 2 * tensor_; }

 private:
  int& packed_;
  at::Tensor tensor_;
};

// The engine of a program, which asks for hooks while `hooks_are_on`.
class ProgramsEngine final : public Engine {
 public:
  static Engine& get() { return instance(); }
  static ProgramsEngine& instance() {
    static auto* const engine = new ProgramsEngine;
    return *engine;
  }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    ++passes;
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!hooks_are_on) return nullptr;
    return std::make_unique<CountingHooks>(packed);
  }

  bool hooks_are_on = false;
  int packed = 0, passes = 0;
};

// Insists on one tensor, and counts what it saves.
class Policy final : public SavedTensorPolicy {
 public:
  explicit Policy(at::Tensor weight) : weight_(std::move(weight)) {}
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    ++saved;
    return keep(tensor);
  }
  bool insists_on(const at::Tensor& tensor) const override {
    return tensor.storage().is_alias_of(weight_.storage());
  }

  int saved = 0;

 private:
  at::Tensor weight_;
};

class SavedTensorsBesideAnEngine : public testing::Test {
 protected:
  SavedTensorsBesideAnEngine() {
    torch::autograd::set_default_engine_stub(&ProgramsEngine::get);
    engine_.packed = engine_.passes = 0;
  }
  ~SavedTensorsBesideAnEngine() override { engine_.hooks_are_on = false; }

  ProgramsEngine& engine_ = ProgramsEngine::instance();
  at::Tensor weight_ = at::full({3}, 5.).requires_grad_(), x_ = at::ones({3}).requires_grad_();
};

TEST_F(SavedTensorsBesideAnEngine, ItsHooksGetWhatThePolicyDoesNotInsistOn) {
  Policy policy(weight_);
  engine_.hooks_are_on = true;
  at::Tensor y;
  {
    const SavedTensorScope scope(policy);
    y = weight_ * x_;
  }
  engine_.hooks_are_on = false;
  EXPECT_EQ(policy.saved, 1);
  EXPECT_EQ(engine_.packed, 1);
  y.sum().backward();
  EXPECT_EQ(x_.grad()[0].item<double>(), 5);
  EXPECT_EQ(weight_.grad()[0].item<double>(), 2) << "the hooks have doubled x";
}

TEST_F(SavedTensorsBesideAnEngine, WithoutItsHooksThePolicyGetsAll) {
  Policy policy(weight_);
  const SavedTensorScope scope(policy);
  (weight_ * x_).sum().backward();
  EXPECT_EQ(policy.saved, 2);
  EXPECT_EQ(weight_.grad()[0].item<double>(), 1);
}

TEST_F(SavedTensorsBesideAnEngine, ItsHooksWorkAsBeforeOutsideOfScopes) {
  {
    Policy policy(weight_);
    const SavedTensorScope scope(policy);  // installs our engine
  }
  engine_.hooks_are_on = true;
  const at::Tensor y = weight_ * x_;
  EXPECT_EQ(engine_.packed, 2);
}

TEST_F(SavedTensorsBesideAnEngine, RunsTheBackwardPasses) {
  Policy policy(weight_);
  const SavedTensorScope scope(policy);
  (weight_ * x_).sum().backward();
  EXPECT_EQ(engine_.passes, 1);
}

}  // namespace
}  // namespace colossal::memory
