#include "colossal/models/parameter_names.h"

#include "colossal/base/error.h"

namespace colossal::models {
namespace {

std::string translate(const LayerNames::Pairs& pairs, std::string_view layer,
                      const std::string& parameter) {
  for (const auto& [ours, theirs] : pairs) {
    if (ours == layer) return std::string(theirs);
  }
  COLOSSAL_CHECK(false, "no parameter {} in this family", parameter);
}

}  // namespace

std::string hugging_face_name(const LayerNames& names, const std::string& parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  const size_t last = parameter.rfind('.');
  COLOSSAL_CHECK(last != std::string::npos, "no parameter {} in this family", parameter);
  const std::string kind = parameter.substr(last);  // ".weight" or ".bias"
  const std::string_view layer = std::string_view(parameter).substr(0, last);
  if (!layer.starts_with(kBlocks)) return translate(names.others, layer, parameter) + kind;
  const size_t dot = layer.find('.', kBlocks.size());
  COLOSSAL_CHECK(dot != std::string::npos, "no parameter {} in this family", parameter);
  return fmt::format("{}{}.{}{}", names.blocks, layer.substr(kBlocks.size(), dot - kBlocks.size()),
                     translate(names.of_a_block, layer.substr(dot + 1), parameter), kind);
}

}  // namespace colossal::models
