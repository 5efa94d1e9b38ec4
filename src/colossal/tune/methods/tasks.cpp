#include "colossal/tune/methods/tasks.h"

namespace colossal::tune {
namespace {

using Make = decltype(&make_sft);

Make maker_of(Method method) {
  switch (method) {
    case Method::sft:
      return make_sft;
    case Method::reward:
      return make_reward;
    case Method::classify:
      return make_classify;
    case Method::dpo:
      return make_dpo;
    case Method::kto:
      return make_kto;
    case Method::orpo:
      return make_orpo;
    case Method::grpo:
      return make_grpo;
    case Method::ppo:
      return make_ppo;
    case Method::rloo:
      return make_rloo;
    case Method::distill:
      return make_distill;
    case Method::draft_head:
      return make_draft_head;
    case Method::simpo:
    case Method::cpo:
      break;
  }
  return make_cpo;
}

}  // namespace

MakeTask make_task(const Tuning& tuning) {
  return [tuning](const Job& job, const ParallelContext& context, const Reading& reading) {
    if (job.model.transformer.patches) return make_classify_images(job, context);
    return maker_of(tuning.method)(job, context, tuning, reading);
  };
}

}  // namespace colossal::tune
