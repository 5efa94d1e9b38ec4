#include "tests/support/layout_cases.h"

#include <fmt/format.h>

#include <algorithm>

namespace colossal::test {
namespace {

std::string tensor_name(const Strategy& layout) {
  switch (layout.tensor_mode) {
    case TensorMode::one_d:
      return layout.tp == 1
                 ? std::string()
                 : fmt::format("tp{}{}_", layout.tp, layout.tp_sequence ? "_tokens" : "");
    case TensorMode::two_d:
      return fmt::format("2d{}_", layout.tp);
    case TensorMode::two_and_half_d:
      return fmt::format("2halfd{}x{}_", layout.tp, layout.tp_depth);
    case TensorMode::three_d:
      return fmt::format("3d{}_", layout.tp);
  }
  return {};
}

}  // namespace

std::string layout_name(const Strategy& layout) {
  std::string name;
  if (layout.pp > 1) {
    name = fmt::format("pp{}x{}_{}_", layout.pp, layout.pp_chunks, layout.pp_schedule);
    std::ranges::replace(name, '-', '_');
  }
  name += tensor_name(layout);
  if (layout.sp > 1) {
    const bool ring = layout.sequence_mode == SequenceMode::ring;
    name += fmt::format("{}{}_", ring ? "ring" : "ulysses", layout.sp);
  }
  if (layout.dp > 1) name += fmt::format("dp{}_", layout.dp);
  name += fmt::format("zero{}", layout.zero);
  if (layout.zero_group > 0) name += fmt::format("_groups{}", layout.zero_group);
  if (layout.table_rows > 0) name += "_blocks";
  return name;
}

std::vector<double> layout_settings(const Strategy& layout, const std::vector<double>& others) {
  std::vector<double> settings{static_cast<double>(layout.pp),
                               static_cast<double>(layout.pp_chunks),
                               static_cast<double>(layout.dp),
                               static_cast<double>(layout.sp),
                               static_cast<double>(layout.sequence_mode),
                               static_cast<double>(layout.tp),
                               static_cast<double>(layout.tensor_mode),
                               static_cast<double>(layout.tp_sequence),
                               static_cast<double>(layout.zero),
                               static_cast<double>(layout.zero_group),
                               static_cast<double>(layout.table_rows)};
  settings.insert(settings.end(), others.begin(), others.end());
  return settings;
}

}  // namespace colossal::test
