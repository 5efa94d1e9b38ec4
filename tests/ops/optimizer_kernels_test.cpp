#include "colossal/ops/optimizer_kernels.h"

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

constexpr int64_t kCount = 200'003;  // several pieces, the last one short

struct State {
  at::Tensor master, working, first, second;
};

State make_state(at::ScalarType master, at::ScalarType working) {
  State state{
      normal({kCount}, master, 1), {}, at::zeros({kCount}, master), at::zeros({kCount}, master)};
  if (working != master) state.working = state.master.to(working);
  return state;
}

// torch.optim.AdamW's single-tensor form, operator by operator.
void reference_update(State& state, const at::Tensor& given, const AdamWScalars& s) {
  const at::Tensor gradient = given.to(state.master.scalar_type()) * s.gradient_scale;
  const auto update = static_cast<double>(s.update);
  state.master.mul_(1 - s.learning_rate * s.weight_decay);
  state.first.lerp_(gradient, 1 - s.beta1);
  state.second.mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
  const double step_size = s.learning_rate / (1 - std::pow(s.beta1, update));
  const double root_correction = std::sqrt(1 - std::pow(s.beta2, update));
  const at::Tensor denominator = (state.second.sqrt() / root_correction).add_(s.epsilon);
  state.master.addcdiv_(state.first, denominator, -step_size);
}

// fp64 rounds at about the same places as the reference; some of its kernels fuse a multiplication
// with an addition.
double bound(at::ScalarType master) {
  return master == at::kDouble ? 1e-15 : 1e-6;
}

TEST(AdamW, EqualsTorchOptimOverSeveralUpdates) {
  for (const auto& [master, working, gradient] :
       {std::array<at::ScalarType, 3>{at::kDouble, at::kDouble, at::kDouble},
        {at::kFloat, at::kFloat, at::kFloat},
        {at::kFloat, at::kBFloat16, at::kBFloat16},
        {at::kFloat, at::kBFloat16, at::kFloat}}) {
    State ours = make_state(master, working), theirs = make_state(master, working);
    for (int64_t update = 1; update <= 5; ++update) {
      const AdamWScalars scalars{.learning_rate = 1e-2,
                                 .beta1 = 0.9,
                                 .beta2 = 0.95,
                                 .epsilon = 1e-8,
                                 .weight_decay = 0.1,
                                 .gradient_scale = 0.25,
                                 .update = update};
      const at::Tensor g = normal({kCount}, gradient, 10 + update);
      adamw(ours.master, ours.working, ours.first, ours.second, g, scalars);
      reference_update(theirs, g, scalars);
      expect_near(ours.master, theirs.master, bound(master));
      expect_near(ours.first, theirs.first, bound(master));
      expect_near(ours.second, theirs.second, bound(master));
    }
    if (ours.working.defined()) {
      EXPECT_TRUE(ours.working.equal(ours.master.to(working)));
    }
  }
}

TEST(AdamW, AnySliceMayBeUpdatedAlone) {
  State whole = make_state(at::kFloat, at::kBFloat16),
        parts = make_state(at::kFloat, at::kBFloat16);
  const at::Tensor gradient = normal({kCount}, at::kBFloat16, 3);
  const AdamWScalars scalars{.learning_rate = 1e-2, .weight_decay = 0.1};
  adamw(whole.master, whole.working, whole.first, whole.second, gradient, scalars);
  for (int64_t begin = 0; begin < kCount; begin += 70'001) {
    const int64_t size = std::min<int64_t>(70'001, kCount - begin);
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, size); };
    adamw(part(parts.master), part(parts.working), part(parts.first), part(parts.second),
          part(gradient), scalars);
  }
  EXPECT_TRUE(parts.master.equal(whole.master));
  EXPECT_TRUE(parts.working.equal(whole.working));
}

TEST(AdamW, KeepsMomentsInBfloatWhereAsked) {
  State state = make_state(at::kFloat, at::kBFloat16), wide = make_state(at::kFloat, at::kBFloat16);
  const at::Tensor gradient = normal({kCount}, at::kFloat, 3);
  const at::Tensor first = state.first.to(at::kBFloat16), second = state.second.to(at::kBFloat16);
  const AdamWScalars scalars{.learning_rate = 1e-2};
  adamw(state.master, state.working, first, second, gradient, scalars);
  adamw(wide.master, wide.working, wide.first, wide.second, gradient, scalars);
  EXPECT_TRUE(state.master.equal(wide.master));
  EXPECT_TRUE(first.equal(wide.first.to(at::kBFloat16)));
  EXPECT_TRUE(second.equal(wide.second.to(at::kBFloat16)));
}

TEST(AdamW, RefusesTensorsThatAreNotFlatOrNotOfOneLength) {
  State state = make_state(at::kFloat, at::kFloat);
  const AdamWScalars scalars;
  const at::Tensor short_gradient = at::zeros({kCount - 1});
  EXPECT_THROW(adamw(state.master, {}, state.first, state.second, short_gradient, scalars),
               InternalError);
  const at::Tensor half = state.master.to(at::kBFloat16);
  EXPECT_THROW(adamw(half, {}, state.first, state.second, state.first, scalars), InternalError);
  const at::Tensor strided = at::zeros({kCount, 2}).select(1, 0);
  EXPECT_THROW(accumulate(state.master, strided), InternalError);
}

TEST(Accumulate, AddsAnyTypeToAnyType) {
  for (const at::ScalarType to_type : all_types()) {
    for (const at::ScalarType from_type : all_types()) {
      const at::Tensor to = normal({kCount}, to_type, 1), from = normal({kCount}, from_type, 2);
      const bool wide = to_type == at::kDouble || from_type == at::kDouble;
      const at::ScalarType type = wide ? at::kDouble : at::kFloat;
      const at::Tensor expected =
          (to.to(type) + from.to(type)).to(at::promote_types(type, at::kFloat));
      accumulate(to, from);
      EXPECT_TRUE(to.equal(to_type == at::kBFloat16 ? expected.to(at::kFloat).to(to_type)
                                                    : expected.to(to_type)));
    }
  }
}

TEST(ConvertCopy, RoundsLikeLibTorchAndScales) {
  for (const at::ScalarType to_type : all_types()) {
    for (const at::ScalarType from_type : all_types()) {
      const at::Tensor from = normal({kCount}, from_type, 2), to = at::empty({kCount}, to_type);
      convert_copy(to, from);
      EXPECT_TRUE(to.equal(from.to(to_type)));
      convert_copy(to, from, 0.3);
      expect_near(to, from.to(at::kDouble) * 0.3, tolerance_of(to_type));
    }
  }
}

TEST(SquaredNorm, IsExactAndTheSameForAnyNumberOfThreads) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor values = normal({kCount}, type, 4);
    const double expected = values.to(at::kDouble).square().sum().item<double>();
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const double alone = squared_norm(values).item<double>();
    at::set_num_threads(3);
    EXPECT_EQ(squared_norm(values).item<double>(), alone);
    at::set_num_threads(threads);
    EXPECT_NEAR(alone, expected, 1e-13 * expected);
  }
  EXPECT_EQ(squared_norm(at::empty({0})).item<double>(), 0);
}

TEST(AllFinite, FindsTheOneBadElement) {
  for (const at::ScalarType type : all_types()) {
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      const at::Tensor values = normal({kCount}, type, 5);
      EXPECT_TRUE(all_finite(values));
      values[kCount - 1] = bad;
      EXPECT_FALSE(all_finite(values));
    }
  }
  EXPECT_TRUE(all_finite(at::empty({0})));
}

TEST(OptimizerKernels, TouchNothingOnMeta) {
  const at::Tensor meta = at::empty({kCount}, at::TensorOptions(at::kMeta).dtype(at::kFloat));
  adamw(meta, meta, meta, meta, meta, {});
  accumulate(meta, meta);
  convert_copy(meta, meta);
  EXPECT_EQ(squared_norm(meta).scalar_type(), at::kDouble);
  EXPECT_TRUE(all_finite(meta));
}

}  // namespace
}  // namespace colossal::ops
