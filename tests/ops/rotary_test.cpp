#include "colossal/ops/attention/rotary.h"

#include <gtest/gtest.h>
#include <array>

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

// A pair of channels as a complex number, times e^(i angle).
at::Tensor turned_as_complex(const at::Tensor& x, const at::Tensor& positions,
                             const at::Tensor& frequencies, int64_t rotated) {
  const auto halves = x.narrow(2, 0, rotated).chunk(2, -1);
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(-1) * frequencies;
  const at::Tensor turned = at::complex(halves[0].contiguous(), halves[1].contiguous()) *
                            at::polar(at::ones_like(angles), angles).unsqueeze(1);
  return at::cat({at::cat({at::real(turned), at::imag(turned)}, -1),
                  x.narrow(2, rotated, x.size(2) - rotated)},
                 2);
}

TEST(Rotary, TurnsPairsOfChannelsByTheirPosition) {
  const at::Tensor frequencies = rotary_frequencies({.base = 100}, 6);
  const at::Tensor positions = at::tensor({3, 0, 17, 4, 1000}, at::kLong);
  for (const at::ScalarType type : all_types()) {
    const at::Tensor start = normal({2, 5, 4, 6}, at::kBFloat16, 1);
    const at::Tensor g = normal({2, 5, 4, 6}, at::kBFloat16, 2);
    const at::Tensor x = start.to(type).requires_grad_();
    const at::Tensor wide = start.to(at::kDouble).requires_grad_();
    const at::Tensor y = rotary(x, positions, frequencies, 3);
    const at::Tensor expected = turned_as_complex(wide, positions, frequencies, 3);
    expect_near(y.detach(), expected.detach(), tolerance_of(type));
    expect_near(torch::autograd::grad({y}, {x}, {g.to(type)})[0],
                torch::autograd::grad({expected}, {wide}, {g.to(at::kDouble)})[0],
                tolerance_of(type));
    EXPECT_EQ(y.scalar_type(), type);
  }
}

// Each pair of the first channels by its own angle; rows of a batch at positions of their own.
TEST(Rotary, TurnsSomeChannelsOfNeighboursOfRows) {
  const at::Tensor frequencies = rotary_frequencies({.base = 100, .channels = 4}, 7);
  ASSERT_EQ(frequencies.size(0), 2);
  const at::Tensor positions = at::tensor({3, 0, 17, 4, 9, 1}, at::kLong).view({2, 3});
  constexpr double kFactor = 1.25;
  for (const at::ScalarType type : all_types()) {
    for (const bool interleaved : {false, true}) {
      const at::Tensor start = normal({2, 3, 4, 7}, at::kBFloat16, 1);
      const at::Tensor g = normal({2, 3, 4, 7}, at::kBFloat16, 2);
      const at::Tensor x = start.to(type).requires_grad_();
      const at::Tensor wide = start.to(at::kDouble).requires_grad_();
      const at::Tensor y = rotary(x, positions, frequencies, 3, {interleaved, kFactor});
      // Channels of a head in a column: first those of pair 0, then those of pair 1.
      const std::vector<std::array<int64_t, 2>> pairs =
          interleaved ? std::vector<std::array<int64_t, 2>>{{0, 1}, {2, 3}}
                      : std::vector<std::array<int64_t, 2>>{{0, 2}, {1, 3}};
      const auto channels = wide.narrow(2, 0, 3).unbind(3);
      std::vector<at::Tensor> turned = channels;
      for (int64_t pair = 0; pair < 2; ++pair) {
        const at::Tensor angle = (positions * frequencies[pair]).unsqueeze(2);
        const auto [a, b] = pairs[pair];
        turned[a] = kFactor * (channels[a] * angle.cos() - channels[b] * angle.sin());
        turned[b] = kFactor * (channels[b] * angle.cos() + channels[a] * angle.sin());
      }
      const at::Tensor expected = at::cat({at::stack(turned, 3), wide.narrow(2, 3, 1)}, 2);
      expect_near(y.detach(), expected.detach(), tolerance_of(type));
      expect_near(torch::autograd::grad({y}, {x}, {g.to(type)})[0],
                  torch::autograd::grad({expected}, {wide}, {g.to(at::kDouble)})[0],
                  tolerance_of(type));
    }
  }
}

TEST(Rotary, IsTheSameFromAViewOfMore) {
  const at::Tensor frequencies = rotary_frequencies({.base = 100}, 6);
  const at::Tensor positions = at::tensor({3, 0, 17, 4, 1000}, at::kLong);
  const at::Tensor wide = normal({2, 5, 9, 6}, at::kFloat, 1);
  const at::Tensor view = wide.narrow(2, 2, 4);
  EXPECT_TRUE(at::equal(rotary(view, positions, frequencies, 3),
                        rotary(view.contiguous(), positions, frequencies, 3)));
}

TEST(Rotary, RunsOnMeta) {
  const at::Tensor frequencies = rotary_frequencies({.base = 100}, 6);
  for (const at::ScalarType type : all_types()) {
    const auto run = [&](at::Device device) {
      const at::Tensor x = normal({2, 5, 4, 6}, type, 1).to(device).requires_grad_();
      const at::Tensor positions = at::arange(5, at::TensorOptions(device).dtype(at::kLong));
      const at::Tensor y = rotary(x, positions, frequencies, 3);
      return std::vector{y, torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0]};
    };
    const auto dry = run(at::kMeta), real = run(at::kCPU);
    for (size_t i = 0; i < real.size(); ++i) {
      EXPECT_TRUE(dry[i].is_meta());
      expect_same_shape(dry[i], real[i]);
      EXPECT_EQ(dry[i].scalar_type(), type);
    }
  }
}

TEST(RotaryFrequencies, AreThoseOfThePaperOrScaled) {
  const at::Tensor plain = rotary_frequencies({.base = 1e4}, 8);
  expect_near(plain, at::tensor({1.0, 0.1, 0.01, 0.001}, at::kDouble), 1e-14);
  expect_near(rotary_frequencies({.base = 1e4, .factor = 4}, 8), plain / 4, 1e-14);
  // Turns within 1,000 positions: 159, 15.9, 1.59, 0.159; between 1 and 4 the share is 0.197.
  const double share = (1000 * 0.01 / (2 * M_PI) - 1) / 3;
  const double between = (1 - share) * 0.01 / 8 + share * 0.01;
  expect_near(rotary_frequencies({.base = 1e4,
                                  .scaling = RotaryOptions::Scaling::llama3,
                                  .factor = 8,
                                  .original_positions = 1000},
                                 8),
              at::tensor({1.0, 0.1, between, 0.001 / 8}, at::kDouble), 1e-14);
}

}  // namespace
}  // namespace colossal::ops
