// Beam search in the engine: the steps of EngineCore for sequences that are beams.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "colossal/serve/engine_core.h"
#include "colossal/serve/logprobs.h"

namespace colossal::serve {

void EngineCore::continue_beams(const RowResults& results, const std::vector<WantedRow>& rows,
                                const std::vector<size_t>& chosen) {
  // The error of each group; empty: none.
  std::map<std::shared_ptr<BeamGroup>, std::string> errors;
  for (const size_t i : chosen) {
    Sequence& beam = *rows[i].sequence;
    BeamGroup& group = *beam.group;
    std::string& error = errors[beam.group];
    group.candidates.resize(group.beams.size());
    try {
      group.candidates[group.index_of(beam)] = candidates(results[i].logits, beam);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    beam.waits = true;
  }
  for (const auto& [group, error] : errors) {
    const uint64_t id = group->beams.front()->id;
    if (!error.empty()) {
      end(id, FinishReason::failed, error);
    } else if (group->is_complete()) {
      guarded(id, [&, group = group] { advance(*group); });
    }
  }
}

// As in transformers' beam search, penalties and masks act on log-probabilities, not on logits.
std::vector<BeamSearch::Candidate> EngineCore::candidates(const at::Tensor& logits,
                                                          const Sequence& beam) {
  const Request& request = beam.request;
  const at::Tensor raw = logits.to(at::kDouble);
  at::Tensor processed = raw.log_softmax(-1);
  if (request.constraint) request.constraint->apply(processed);
  process_logits(processed, request.sampling, beam.text_before(beam.generated()));
  const int64_t count = std::min(beam.group->search.num_candidates(), processed.numel());
  const auto& [logprobs, tokens] = processed.topk(count);
  if (logprobs[0].isnan().item<bool>()) throw Error("the model's logits are not finite");
  std::vector<BeamSearch::Candidate> likely;
  for (int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<int32_t>(tokens[i].item<int64_t>());
    GeneratedToken generated{.token = token};
    if (request.logprobs >= 0) {
      generated = with_logprobs(raw / request.logprobs_temperature, token, request.logprobs);
    }
    likely.push_back({std::move(generated), logprobs[i].item<double>()});
  }
  return likely;
}

void EngineCore::advance(BeamGroup& group) {
  Sequence& first = *group.beams.front();
  if (!first.prompt_done) finish_prompt(first);
  const auto is_complete = [&](const BeamSearch::Continuation& continuation) {
    const Sequence& beam = *group.beams[continuation.parent];
    const int32_t token = continuation.token.token;
    if (beam.request.constraint) {
      const auto constraint = beam.request.constraint->clone();
      constraint->accept(token);
      if (constraint->finished()) return true;
    }
    if (!beam.request.ends_beam) return false;
    std::vector<int32_t> text(beam.generated().begin(), beam.generated().end());
    text.push_back(token);
    return beam.request.ends_beam(text);
  };
  const auto goes_on = group.search.advance(group.candidates, is_complete);
  counts_.generated_tokens += std::ssize(goes_on);
  if (goes_on.empty()) return finish_beams(group);
  rearrange(group, goes_on);
}

void EngineCore::rearrange(BeamGroup& group, const std::vector<BeamSearch::Continuation>& goes_on) {
  std::vector<Sequence*> beams(goes_on.size());
  std::set<Sequence*> without_place(group.beams.begin(), group.beams.end());
  for (size_t i = 0; i < goes_on.size(); ++i) {
    Sequence* const parent = group.beams[goes_on[i].parent];
    if (without_place.erase(parent) > 0) beams[i] = parent;
  }
  for (const Sequence* dropped : without_place) {
    retire(scheduler_.remove(*dropped));
  }
  for (size_t i = 0; i < goes_on.size(); ++i) {
    if (beams[i]) continue;
    const Sequence& parent = *group.beams[goes_on[i].parent];
    beams[i] = &scheduler_.fork(parent, ++group.num_forks);
    if (parent.request.constraint) {
      beams[i]->request.constraint = parent.request.constraint->clone();
    }
  }
  for (size_t i = 0; i < goes_on.size(); ++i) {
    const int32_t token = goes_on[i].token.token;
    if (beams[i]->request.constraint) beams[i]->request.constraint->accept(token);
    beams[i]->tokens.push_back(token);
    beams[i]->waits = false;
  }
  group.beams = std::move(beams);
  group.candidates.clear();
}

void EngineCore::finish_beams(const BeamGroup& group) {
  Sequence& first = *group.beams.front();
  const std::vector<BeamText>& texts = group.search.finished();
  if (texts.empty()) {
    return end(first.id, FinishReason::failed, "no token is allowed next, and no text is complete");
  }
  if (first.request.on_beams) first.request.on_beams(texts);
  for (Sequence* const beam : group.beams) {
    beam->usage.completion_tokens = std::ssize(texts.front().tokens);
  }
  end(first.id, texts.front().reason);
}

}  // namespace colossal::serve
