#include "colossal/plan/plan_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "colossal/base/units.h"
#include "colossal/plan/pipeline_plan.h"
#include "colossal/report/bars.h"
#include "colossal/report/html.h"
#include "colossal/report/page.h"
#include "colossal/training/run_summary.h"

namespace colossal::plan {
namespace {

using Json = nlohmann::ordered_json;
using report::escape_html;

constexpr size_t kMostRanks = 24;  // that have a bar

std::string seconds_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

std::string bytes_text(const Json& bytes) {
  return format_bytes(bytes.get<int64_t>());
}

std::string headlines(const Json& json) {
  std::string html = "<section class=\"headlines\">\n";
  const auto add = [&](const char* name, const std::string& value, const std::string& note) {
    html += fmt::format("<div><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>\n", name, value,
                        escape_html(note));
  };
  if (json.contains("predicted_step_seconds")) {
    const double seconds = json["predicted_step_seconds"];
    add("A step takes", seconds_text(seconds), "by prediction");
    add("Tokens per second",
        format_count(static_cast<int64_t>(json["tokens"].get<double>() / seconds)), "all ranks");
  }
  add("Memory at the peak", bytes_text(json["memory_at_peak"]), "tensors of the fullest rank");
  int64_t sent = 0;
  for (const Json& rank : json["recorded_ranks"]) {
    int64_t of_rank = 0;
    for (const auto& [axis, reasons] : rank["bytes_sent"].items()) {
      for (const auto& [reason, bytes] : reasons.items()) of_rank += bytes.get<int64_t>();
    }
    sent = std::max(sent, of_rank);
  }
  add("Sent in a step", format_bytes(sent), "by the rank that sends most");
  add("Computed in a step", fmt::format("{:.3g} FLOPs", json["flops"].get<double>()), "by a rank");
  if (json.contains("bubble_share")) {
    add("Bubble", fmt::format("{:.1f} %", 100 * json["bubble_share"].get<double>()),
        "of the pipeline's time, by FLOPs");
  }
  return html + "</section>\n";
}

std::string rank_name(const Json& rank) {
  return fmt::format("rank {}", rank["rank"].get<int64_t>());
}

// The recorded ranks, at most kMostRanks, evenly spread.
std::vector<const Json*> some_ranks(const Json& json) {
  const Json& all = json["recorded_ranks"];
  std::vector<const Json*> some;
  const size_t number = std::min(all.size(), kMostRanks);
  for (size_t i = 0; i < number; ++i) {
    some.push_back(&all[number == 1 ? 0 : i * (all.size() - 1) / (number - 1)]);
  }
  return some;
}

std::string memory_figure(const Json& json) {
  report::Bars bars{.title = "Memory by kind",
                    .note = "tensors of each recorded rank at the peak of a step"};
  for (const auto& [kind, bytes] : json["memory_by_kind"].items()) bars.parts.push_back(kind);
  for (const Json* rank : some_ranks(json)) {
    report::Bar& bar = bars.bars.emplace_back(rank_name(*rank));
    for (const std::string& kind : bars.parts) bar.parts.push_back((*rank)["memory_by_kind"][kind]);
    bar.text = bytes_text((*rank)["memory_at_peak"]);
  }
  return bars_figure(bars);
}

std::string recompute_figure(const Json& json) {
  if (!json.contains("recompute")) return "";
  report::Bars bars{.title = "Memory by memory.recompute",
                    .note = "at the peak, of the fullest rank",
                    .parts = {"at the peak"}};
  for (const auto& [name, cost] : json["recompute"].items()) {
    bars.bars.push_back({name, {cost["memory_at_peak"]}, bytes_text(cost["memory_at_peak"])});
  }
  return bars_figure(bars);
}

std::string traffic_figure(const Json& json) {
  report::Bars bars{.title = "Bytes by axis", .note = "sent in a step, the most of a rank"};
  for (const auto& [reason, bytes] : json["bytes_sent_by_reason"].items()) {
    bars.parts.push_back(reason);
  }
  for (const auto& [axis, bytes] : json["bytes_sent"].items()) {
    report::Bar& bar = bars.bars.emplace_back(axis);
    for (const std::string& reason : bars.parts) {
      int64_t most = 0;
      for (const Json& rank : json["recorded_ranks"]) {
        const auto of_axis = rank["bytes_sent"].find(axis);
        if (of_axis != rank["bytes_sent"].end())
          most = std::max<int64_t>(most, of_axis->value(reason, int64_t{0}));
      }
      bar.parts.push_back(static_cast<double>(most));
    }
    bar.text = bytes_text(bytes);
  }
  return bars.bars.empty() ? "" : bars_figure(bars);
}

std::string time_figure(const Json& json) {
  if (!json.contains("predicted_seconds_by_kind")) return "";
  report::Bars bars{.title = "Seconds by kind",
                    .note = "what the rank with the most work does in a step"};
  const Json& kinds = json["predicted_seconds_by_kind"];
  for (const auto& [kind, seconds] : kinds.items()) bars.parts.push_back(kind);
  size_t index = 0;
  for (const auto& [kind, seconds] : kinds.items()) {
    report::Bar& bar = bars.bars.emplace_back(kind);
    bar.parts.resize(kinds.size());
    bar.parts[index++] = seconds;
    bar.text = seconds_text(seconds);
  }
  return bars_figure(bars);
}

std::string layouts_section(const Json& json) {
  if (!json.contains("search")) return "";
  std::string html =
      "<section><h2>Layouts compared</h2>\n<table class=\"layouts\"><tr><th>a step</th><th>at the "
      "peak</th><th>sent</th><th>settings</th></tr>\n";
  for (const Json& choice : json["search"]["choices"]) {
    std::string settings;
    for (const auto& [key, value] : choice["settings"].items()) {
      settings += fmt::format("{}{} = {}", settings.empty() ? "" : ", ",
                              key.substr(key.find('.') + 1), value.dump());
    }
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        seconds_text(choice["predicted_step_seconds"]),
                        bytes_text(choice["memory_at_peak"]), bytes_text(choice["bytes_sent"]),
                        escape_html(settings));
  }
  return html + "</table></section>\n";
}

}  // namespace

std::string page_of(const Job& job, const nlohmann::ordered_json& json, const std::string& text) {
  std::string body = fmt::format(
      "<header><h1>Plan</h1><p>{} parameters, {} layers of {} | {} | {} ranks | {}</p></header>\n",
      format_count(job.model.facts.parameters), job.model.facts.layers, job.model.facts.hidden,
      escape_html(describe_layout(job)), format_count(job.strategy.world_size()),
      escape_html(describe_precision(job.precision)));
  body += headlines(json) + time_figure(json) + memory_figure(json) + recompute_figure(json) +
          traffic_figure(json);
  if (job.strategy.pp > 1) body += report::timeline_figure(timeline_of(plan_pipeline(job)));
  body += layouts_section(json);
  return report::html_page("Plan", body +
                                       "<section class=\"text\"><h2>All figures</h2>\n<pre "
                                       "class=\"whole\">" +
                                       escape_html(text) + "</pre></section>\n");
}

}  // namespace colossal::plan
