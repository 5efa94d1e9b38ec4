#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>

#include "colossal/base/error.h"
#include "colossal/checkpoint/gguf_conversion.h"
#include "colossal/python/definitions.h"
#include "colossal/python/language_model.h"
#include "colossal/python/tensor_caster.h"

namespace nb = nanobind;

namespace colossal::python {
namespace {

using Unlocked = nb::call_guard<nb::gil_scoped_release>;

// (token, log-probability, rank, [(token, log-probability), ...] of the most likely tokens)
nb::object logprob_of(const std::optional<serve::GeneratedToken>& token) {
  if (!token) return nb::none();
  nb::list top;
  for (const serve::TokenLogprob& other : token->top) {
    top.append(nb::make_tuple(other.token, other.logprob));
  }
  return nb::make_tuple(token->token, token->logprob, token->rank, top);
}

nb::list logprobs_of(const AnswerPart& part) {
  nb::list all;
  for (const server::LoggedToken& logged : part.added.logged) all.append(logprob_of(logged.token));
  return all;
}

nb::list prompt_logprobs_of(const AnswerPart& part) {
  nb::list all;
  for (const auto& token : part.prompt_logprobs) all.append(logprob_of(token));
  return all;
}

// (index, id, name or None, arguments): what was added to each tool call
nb::list calls_of(const AnswerPart& part) {
  nb::list all;
  for (const server::CallDelta& call : part.added.calls) {
    all.append(nb::make_tuple(call.index, call.id, call.name, call.arguments));
  }
  return all;
}

// [texts, numbers], fp32
at::Tensor take_embeddings(Generation& generation) {
  const std::vector<std::vector<float>> found = generation.take_embeddings();
  const auto width = found.empty() ? int64_t{0} : std::ssize(found.front());
  at::Tensor all = at::empty({std::ssize(found), width}, at::kFloat);
  float* next = all.mutable_data_ptr<float>();
  for (const std::vector<float>& embedding : found) next = std::ranges::copy(embedding, next).out;
  return all;
}

// Writes the model of a GGUF file to a new folder. Quantized weights become bf16, or fp32 if
// is_wide.
void convert_gguf(const std::string& file, const std::string& folder, bool is_wide) {
  if (!std::filesystem::exists(file)) throw ConfigError(fmt::format("{}: no such file", file));
  checkpoint::gguf_to_hf(file, folder, std::nullopt,
                         is_wide ? io::GgufType::f32 : io::GgufType::bf16);
}

void define_generation(nb::module_& module) {
  nb::class_<AnswerPart>(module, "AnswerPart")
      .def_ro("index", &AnswerPart::index)
      .def_prop_ro("text", [](const AnswerPart& part) { return part.added.text; })
      .def_prop_ro("reasoning", [](const AnswerPart& part) { return part.added.reasoning; })
      .def_prop_ro("token_ids", [](const AnswerPart& part) { return part.added.tokens; })
      .def_prop_ro("logprobs", &logprobs_of)
      .def_prop_ro("calls", &calls_of)
      .def_ro("finish_reason", &AnswerPart::finish_reason)
      .def_ro("stop_string", &AnswerPart::stop_string)
      .def_ro("cached_tokens", &AnswerPart::cached_tokens)
      .def_ro("beam_score", &AnswerPart::beam_score)
      .def_ro("prompt", &AnswerPart::prompt)
      .def_prop_ro("prompt_logprobs", &prompt_logprobs_of);
  nb::class_<Generation>(module, "Generation")
      .def("wait", &Generation::wait, nb::arg("seconds"), Unlocked())
      .def("take_parts", &Generation::take_parts)
      .def("take_embeddings", &take_embeddings)
      .def("take_answer", &Generation::take_answer)
      .def("finished", &Generation::finished);
}

}  // namespace

void define_language_model(nb::module_& module) {
  define_generation(module);
  using Statistics = serve::EngineStatistics;
  nb::class_<Statistics>(module, "Statistics")
      .def_ro("running", &Statistics::running)
      .def_ro("waiting", &Statistics::waiting)
      .def_ro("prompt_tokens", &Statistics::prompt_tokens)
      .def_ro("cached_tokens", &Statistics::prefix_hits)
      .def_ro("generated_tokens", &Statistics::generated_tokens)
      .def_ro("steps", &Statistics::steps)
      .def_ro("draft_tokens", &Statistics::draft_tokens)
      .def_ro("accepted_tokens", &Statistics::accepted_tokens)
      .def_ro("pages", &Statistics::pages)
      .def_ro("pages_in_use", &Statistics::pages_in_use);
  using Options = LanguageModelOptions;
  nb::class_<Options>(module, "LanguageModelOptions")
      .def(nb::init<>())
      .def_rw("folder", &Options::folder)
      .def_rw("dtype", &Options::dtype)
      .def_rw("quantization", &Options::quantization)
      .def_rw("quantization_group", &Options::quantization_group)
      .def_rw("device", &Options::device)
      .def_rw("offload", &Options::offload)
      .def_rw("nvme_path", &Options::nvme_path)
      .def_rw("kv_dtype", &Options::kv_dtype)
      .def_rw("kv_bytes", &Options::kv_bytes)
      .def_rw("max_model_len", &Options::max_model_len)
      .def_rw("max_num_seqs", &Options::max_num_seqs)
      .def_rw("max_batch_tokens", &Options::max_batch_tokens)
      .def_rw("prefix_cache", &Options::prefix_cache)
      .def_rw("batch_invariant", &Options::batch_invariant)
      .def_rw("generation_config", &Options::generation_config)
      .def_rw("adapters", &Options::adapters)
      .def_rw("speculate", &Options::speculate)
      .def_rw("draft", &Options::draft)
      .def_rw("num_drafts", &Options::num_drafts)
      .def_rw("parallel", &Options::parallel);
  module.def("convert_gguf", &convert_gguf, nb::arg("file"), nb::arg("folder"), nb::arg("is_wide"),
             Unlocked());
  nb::class_<LanguageModel>(module, "LanguageModel")
      .def(nb::init<const Options&>(), nb::arg("options"), Unlocked())
      .def("complete", &LanguageModel::complete, nb::arg("body"), Unlocked())
      .def("chat", &LanguageModel::chat, nb::arg("body"), Unlocked())
      .def("embed", &LanguageModel::embed, nb::arg("body"), Unlocked())
      .def("classify", &LanguageModel::classify, nb::arg("body"), Unlocked())
      .def("score", &LanguageModel::score, nb::arg("body"), Unlocked())
      .def("cancel", &LanguageModel::cancel, nb::arg("generation"), Unlocked())
      .def("encode", &LanguageModel::encode, nb::arg("text"), Unlocked())
      .def("decode", &LanguageModel::decode, nb::arg("tokens"), Unlocked())
      .def("load_adapter", &LanguageModel::load_adapter, nb::arg("name"), nb::arg("folder"),
           Unlocked())
      .def("unload_adapter", &LanguageModel::unload_adapter, nb::arg("name"), Unlocked())
      .def("close", &LanguageModel::close, Unlocked())
      .def_prop_ro("leads", &LanguageModel::leads)
      .def_prop_ro("name", &LanguageModel::name)
      .def_prop_ro("max_model_len", &LanguageModel::max_model_len)
      .def("statistics", &LanguageModel::statistics, Unlocked());
}

}  // namespace colossal::python
