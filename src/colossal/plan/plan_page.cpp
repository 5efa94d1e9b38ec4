#include "colossal/plan/plan_page.h"

#include "colossal/plan/pipeline_plan.h"
#include "colossal/report/html.h"
#include "colossal/report/page.h"

namespace colossal::plan {

std::string page_of(const Job& job, const std::string& text) {
  std::string body = "<header><h1>Plan</h1></header>\n";
  if (job.strategy.pp > 1) body += report::timeline_figure(timeline_of(plan_pipeline(job)));
  return report::html_page(
      "Plan", body + "<section>\n<pre>" + report::escape_html(text) + "</pre></section>\n");
}

}  // namespace colossal::plan
