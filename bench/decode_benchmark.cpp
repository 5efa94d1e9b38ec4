// How fast a model generates: greedy tokens of sequences side by side after a prompt each, and the
// bytes of weights that are read for them.
//   decode_benchmark MODEL_DIR [threads [prompt [new tokens [none|int8|int4|int8-dynamic
//     [sequences]]]]]
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "colossal/comm/world.h"
#include "colossal/models/families.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/inference_model.h"
#include "colossal/serve/model_folder.h"

namespace colossal {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::optional<ops::Quantization> quantization(const std::string& name) {
  using Type = ops::Quantization::Type;
  if (name == "int8") return ops::Quantization{};
  if (name == "int8-dynamic") return ops::Quantization{.activations = ops::Activations::int8};
  if (name == "int4") return ops::Quantization{.type = Type::int4, .group = 64, .zero_point = true};
  return std::nullopt;
}

// All weights but the table of tokens, of which one row is read, where the head has its own.
double bytes_of_a_token(const serve::InferenceModel& model,
                        const models::ModelSpecification& specification) {
  const models::TransformerConfig& decoder = specification.decoder;
  const double table =
      static_cast<double>(decoder.vocabulary * decoder.hidden) *
      static_cast<double>(c10::elementSize(serve::compute_type(specification.weights)));
  return static_cast<double>(model.weight_bytes()) - (decoder.tied_head ? 0 : table);
}

// When each token came, since the requests were made.
std::vector<double> times_of_tokens(serve::Engine& engine, const std::vector<int32_t>& prompt,
                                    int64_t tokens, int64_t sequences) {
  std::vector<double> times;  // written by the engine's thread only
  const Clock::time_point start = Clock::now();
  for (int64_t i = 0; i < sequences; ++i) {
    engine.submit({.prompt = prompt,
                   .sampling = {.temperature = 0},
                   .max_new_tokens = tokens,
                   .on_token = [&](const serve::GeneratedToken&) {
                     times.push_back(seconds_since(start));
                     return true;
                   }});
  }
  engine.drain();
  return times;
}

int run(const std::vector<std::string>& arguments) {
  const auto number = [&](size_t index, int64_t otherwise) {
    return arguments.size() > index ? std::atoll(arguments[index].c_str()) : otherwise;
  };
  const std::string folder = arguments.at(0);
  at::set_num_threads(static_cast<int>(number(1, at::get_num_threads())));
  const int64_t prompt = number(2, 128), tokens = number(3, 128);
  const models::ModelSpecification specification = models::resolve_model({.path = folder});
  const serve::InferenceModel model(
      specification, {.type = serve::compute_type(folder),
                      .quantization = quantization(arguments.size() > 4 ? arguments[4] : "none")});
  const double read = bytes_of_a_token(model, specification);
  serve::Engine engine(*model, specification.facts,
                       {.prefix_cache = false, .type = serve::compute_type(folder)});
  const int64_t sequences = number(5, 1);
  std::vector<int32_t> text;
  for (int64_t i = 0; i < prompt; ++i) text.push_back(static_cast<int32_t>(i * 7 % 500));
  for (int round = 0; round < 3; ++round) {
    const std::vector<double> times = times_of_tokens(engine, text, tokens, sequences);
    // From when all have begun.
    const auto begun = static_cast<size_t>(sequences - 1);
    const double rate =
        static_cast<double>(times.size() - 1 - begun) / (times.back() - times[begun]);
    fmt::print(
        "{} threads, {} sequences: prompts of {} in {:.3f} s, then {:.1f} tokens/s, {:.1f} "
        "GB/s of weights\n",
        at::get_num_threads(), sequences, prompt, times[begun], rate,
        rate / static_cast<double>(sequences) * read * 1e-9);
  }
  return 0;
}

}  // namespace
}  // namespace colossal

int main(int argc, char** argv) {
  return colossal::run({argv + 1, argv + argc});
}
