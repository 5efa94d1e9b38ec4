#include "colossal/job/precision.h"

#include "colossal/base/error.h"

namespace colossal {
namespace {

at::ScalarType parse(const std::string& key, const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "fp64") return at::kDouble;
  if (name == "bf16") return at::kBFloat16;
  throw ConfigError(fmt::format(
      "precision.{} = \"{}\": unknown; use \"auto\", \"fp32\", \"bf16\" or \"fp64\"", key, name));
}

}  // namespace

const char* type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "fp32";
    case at::kDouble:
      return "fp64";
    case at::kBFloat16:
      return "bf16";
    default:
      return "?";
  }
}

Precision resolve_precision(const PrecisionConfig& config, bool bf16_instructions,
                            int64_t micro_batches) {
  Precision precision;
  precision.compute = config.compute == "auto" ? (bf16_instructions ? at::kBFloat16 : at::kFloat)
                                               : parse("compute", config.compute);
  precision.master = precision.compute == at::kDouble ? at::kDouble : at::kFloat;
  if (config.gradients == "auto") {
    precision.gradient =
        precision.compute == at::kBFloat16 && micro_batches > 1 ? at::kFloat : precision.compute;
  } else {
    precision.gradient = parse("gradients", config.gradients);
    if ((precision.compute == at::kDouble) != (precision.gradient == at::kDouble)) {
      throw ConfigError(
          fmt::format("precision.gradients = \"{}\" with precision.compute = \"{}\": fp64 must be "
                      "used for both or for neither; use gradients = \"auto\"",
                      config.gradients, type_name(precision.compute)));
    }
  }
  return precision;
}

}  // namespace colossal
