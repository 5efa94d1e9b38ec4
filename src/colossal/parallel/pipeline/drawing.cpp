#include "colossal/parallel/pipeline/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace colossal::parallel::pipeline {
namespace {

// Kinds of computations, in the order of the legend.
enum class Pass { forward, backward, input_gradient, weight_gradient, pair };

const report::TimelineCategory kPasses[] = {
    {"F forward", 1},
    {"B backward", 4},
    {"I input gradient", 2},
    {"W weight gradient", 3},
    {"forward and backward at the same time", 5},
};

Pass pass_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::backward_input:
      return Pass::input_gradient;
    case ActionKind::backward_weight:
      return Pass::weight_gradient;
    case ActionKind::backward:
      return Pass::backward;
    default:
      return Pass::forward;
  }
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Simulation& simulation, const std::string& unit)
      : schedule_(schedule), simulation_(simulation), unit_(unit) {}

  report::Timeline make() {
    report::Timeline timeline;
    timeline.title =
        fmt::format("{}: {} rank{}, {} micro-batch{}", schedule_.name, schedule_.num_ranks(),
                    schedule_.num_ranks() == 1 ? "" : "s", schedule_.num_micro_batches,
                    schedule_.num_micro_batches == 1 ? "" : "es");
    timeline.note = fmt::format(
        "{}; {:.1f} % of the ranks' time is bubble{}",
        unit_.empty() ? fmt::format("{:.4g} units of time", simulation_.makespan)
                      : with_unit(simulation_.makespan),
        100 * simulation_.bubble_share(),
        schedule_.num_stages() > schedule_.num_ranks() ? "; pale: every second stage of a rank"
                                                       : "");
    if (!unit_.empty()) timeline.time_name = unit_;
    for (int rank = 0; rank < schedule_.num_ranks(); ++rank) timeline.rows.push_back(row(rank));
    keep_categories_that_occur(timeline);
    return timeline;
  }

 private:
  report::TimelineRow row(int rank) const {
    const double idle =
        simulation_.makespan > 0 ? simulation_.idle(rank) / simulation_.makespan : 0;
    report::TimelineRow row{
        fmt::format("rank {}", rank), fmt::format("{:.1f} % idle", 100 * idle), {}};
    const std::vector<Action>& actions = schedule_.actions[rank];
    const std::vector<Span>& spans = simulation_.spans[rank];
    for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
      if (!is_computation(actions[i].kind)) continue;
      const int partner = actions[i].overlaps_next ? overlap_partner(actions, i) : -1;
      if (partner >= 0 && spans[partner].start == spans[i].start) {
        row.spans.push_back(pair_span(actions[i], actions[partner], spans[i]));
        i = partner;
      } else {
        row.spans.push_back(span_of(actions[i], spans[i]));
      }
    }
    return row;
  }

  bool odd_chunk(const Action& action) const {
    return chunk_of_stage(schedule_, action.stage) % 2 == 1;
  }

  std::string label_of(const Action& action) const {
    std::string letters = kind_name(action.kind);
    if (odd_chunk(action)) {
      std::ranges::transform(letters, letters.begin(), [](char c) { return std::tolower(c); });
    }
    return letters + std::to_string(action.micro_batch);
  }

  static int category_of(Pass pass) { return static_cast<int>(pass); }

  std::string with_unit(double time) const {
    return fmt::format("{:.4g}{}{}", time, unit_.empty() ? "" : " ", unit_);
  }

  std::string title_of(const Action& action) const {
    return fmt::format("{} {}", kind_name(action.kind), in_words(action));
  }

  std::string times_of(const Span& span) const {
    return fmt::format(", from {:.4g} to {}", span.start, with_unit(span.end));
  }

  report::TimelineSpan span_of(const Action& action, const Span& span) const {
    return {span.start,        span.end,         category_of(pass_of(action.kind)),
            odd_chunk(action), label_of(action), title_of(action) + times_of(span)};
  }

  report::TimelineSpan pair_span(const Action& first, const Action& second,
                                 const Span& span) const {
    return {span.start,
            span.end,
            category_of(Pass::pair),
            odd_chunk(first),
            label_of(first) + "&" + label_of(second),
            title_of(first) + "; " + title_of(second) + times_of(span)};
  }

  // Spans are made with all categories; this removes the categories that do not occur.
  static void keep_categories_that_occur(report::Timeline& timeline) {
    std::map<int, int> place;
    for (const report::TimelineRow& row : timeline.rows) {
      for (const report::TimelineSpan& span : row.spans) place[span.category] = 0;
    }
    for (auto& [category, kept] : place) {
      kept = static_cast<int>(timeline.categories.size());
      timeline.categories.push_back(kPasses[category]);
    }
    for (report::TimelineRow& row : timeline.rows) {
      for (report::TimelineSpan& span : row.spans) span.category = place[span.category];
    }
  }

  const Schedule& schedule_;
  const Simulation& simulation_;
  const std::string& unit_;
};

}  // namespace

report::Timeline timeline_of(const Schedule& schedule, const Simulation& simulation,
                             const std::string& unit) {
  return Picture(schedule, simulation, unit).make();
}

}  // namespace colossal::parallel::pipeline
