#include "colossal/report/page.h"

#include <fmt/format.h>

#include "colossal/report/html.h"
#include "colossal/report/timeline.h"

namespace colossal::report {
namespace {

constexpr std::string_view kColors = R"css(
:root { color-scheme: light dark;
  --page: #f7f7f5; --card: #fff; --text: #1d1f23; --muted: #6a6e76; --line: #e4e4e0;
  --c1: #2a6fdb; --c2: #d9711c; --c3: #1f9d76; --c4: #9257c9; --c5: #c63d6f; --c6: #7d8a2e;
  --c7: #8b8f98; }
@media (prefers-color-scheme: dark) { :root {
  --page: #131416; --card: #1b1d20; --text: #e7e8ea; --muted: #979ca5; --line: #2c2f34;
  --c1: #6ea3f7; --c2: #f0a05c; --c3: #52c9a3; --c4: #bd92ec; --c5: #ef7fa6; --c6: #b9c46a;
  --c7: #8f939b; } }
.c1 { --color: var(--c1); } .c2 { --color: var(--c2); } .c3 { --color: var(--c3); }
.c4 { --color: var(--c4); } .c5 { --color: var(--c5); } .c6 { --color: var(--c6); }
.c7 { --color: var(--c7); }
)css";

constexpr std::string_view kStyle = R"css(
* { box-sizing: border-box; margin: 0; }
body { background: var(--page); color: var(--text); padding: 2.5rem 1.25rem 4rem;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; }
main { max-width: 1120px; margin: 0 auto; display: grid; grid-template-columns: minmax(0, 1fr);
  gap: 1.25rem; }
h1 { font-size: 1.7rem; font-weight: 650; line-height: 1.25; letter-spacing: -.015em;
  overflow-wrap: anywhere; }
h2 { font-size: 1rem; font-weight: 650; margin-bottom: .6rem; }
header p, .note, dt, dd span, .source, .at, caption { color: var(--muted); }
header p { margin: .3rem 0 .25rem; }
.headlines, .chart, .timeline, section > table, .columns, pre { background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; }
section { min-width: 0; }

.headlines { display: flex; flex-wrap: wrap; gap: 1px; overflow: hidden; background: var(--line); }
.headlines div { flex: 1 1 150px; background: var(--card); padding: .9rem 1.1rem 1rem; }
dt, dd span { font-size: .82rem; }
dd b { display: block; font-size: 1.45rem; font-weight: 600; line-height: 1.4;
  letter-spacing: -.02em; white-space: nowrap; }

.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.25rem; }
.chart { display: flex; flex-direction: column; padding: 1rem 1.4rem 2.3rem 4.4rem; }
.chart:first-child, .chart:nth-child(even):last-child { grid-column: 1 / -1; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 .6rem; align-items: baseline;
  margin: 0 0 .9rem -3.2rem; }
figcaption b { font-weight: 650; }
.note, .at, .legend { font-size: .82rem; }
.at { margin-left: auto; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; list-style: none; padding: 0; }
.legend .name { color: var(--muted); }
.legend .name::before { content: ""; display: inline-block; width: .65em; height: .65em;
  border-radius: 50%; background: var(--color); margin-right: .4em; }
output { font-weight: 600; }
.empty { color: var(--muted); }
.plot { margin-top: auto; touch-action: pan-y; }
.plot svg { display: block; width: 100%; height: 100%; overflow: visible; }
.grid line { stroke: var(--line); }
.grid text { fill: var(--muted); font-size: 12px; }
.grid .y { text-anchor: end; } .grid .x { text-anchor: middle; }
path { vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round;
  stroke: var(--color); fill: none; }
.line { stroke-width: 1.6px; } .dots { stroke-width: 6px; }
.area { stroke: none; fill: var(--color); fill-opacity: .5; }
.pointer { visibility: hidden; pointer-events: none; }
.active .pointer { visibility: visible; }
.cursor { stroke: var(--muted); stroke-dasharray: 3 3; }
circle { fill: var(--color); stroke: var(--card); stroke-width: 1.5px; }
.timeline, .load-map { padding: 1rem 1.4rem; }
.load-map { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  margin: 1.25rem 0 0; }
.load-map figcaption { margin-left: 0; }
.load-map svg { display: block; width: 100%; height: 16rem; }
.load-map path { stroke: none; fill: var(--color); }
.shade { display: inline-block; width: 1.1em; height: .8em; background: var(--color);
  margin-right: .4em; }
.timeline figcaption { margin-left: 0; }
.wide { overflow-x: auto; }
.wide svg { display: block; width: 100%; min-width: 760px; }

.bars { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.4rem; }
.bars figcaption { margin: 0 0 .3rem; }
.bars .legend { margin-bottom: .7rem; }
.bar { display: grid; grid-template-columns: 9rem minmax(0, 1fr) 6rem; gap: .8rem;
  align-items: center; font-size: .87rem; padding: .16rem 0; }
.bar .name { color: var(--muted); overflow-wrap: anywhere; }
.bar .value { text-align: right; }
.track { display: flex; height: 1.05rem; }
.track i { background: var(--color); opacity: .8; min-width: 1px; }
.track i:first-child { border-radius: 3px 0 0 3px; } .track i:last-child { border-radius: 0 3px 3px 0; }
.layouts td, .layouts th { width: auto; padding-right: 1.2rem; overflow-wrap: normal; }
.layouts td { white-space: nowrap; } .layouts td:last-child { white-space: normal; }
pre.whole { max-height: none; overflow: visible; }

.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr));
  gap: 1.25rem; }
table { width: 100%; border-spacing: 0; font-size: .87rem; }
section > table { padding: .5rem 1.1rem; }
th { font-weight: 400; text-align: left; color: var(--muted); }
th, td { padding: .3rem 0; vertical-align: baseline; overflow-wrap: anywhere; }
tr + tr > * { border-top: 1px solid var(--line); }
th { width: 45%; padding-right: 1rem; }
.columns { columns: 2 380px; column-gap: 2.5rem; padding: .9rem 1.1rem; }
.settings { break-inside: avoid; margin-bottom: 1.1rem; }
caption { text-align: left; font-weight: 650; color: var(--text); padding-bottom: .15rem; }
.settings th { color: inherit; width: 42%; }
.settings .source { text-align: right; width: 4.5rem; font-size: .78rem; padding-left: .6rem; }
.default th, .default td { color: var(--muted); }
.settings td:nth-child(2), pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas,
  "DejaVu Sans Mono", monospace; font-size: .8rem; }
figure img { width: 100%; image-rendering: pixelated; border-radius: 4px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); gap: .8rem; }
.pictures figure { margin: 0; font-size: .75rem; overflow-wrap: anywhere; }
.pictures figcaption { display: block; margin: .3rem 0 0; }
.pictures .wrong figcaption { color: var(--c2); font-weight: 600; }
pre { padding: 1rem 1.1rem; white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.55;
  max-height: 36rem; overflow-y: auto; }
pre b { color: var(--c1); font-weight: 600; }
@media (max-width: 760px) {
  body { padding: 1.5rem .75rem 3rem; }
  .charts { grid-template-columns: minmax(0, 1fr); }
  .chart { padding-right: 1.1rem; }
}
@media print {
  body { background: none; padding: 0; font-size: 12px; print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  .chart, .timeline, .bars, section { break-inside: avoid; }
  section.text { break-inside: auto; } pre { max-height: none; font-size: .62rem; }
}
)css";

// Shows each series' value nearest to the pointer in the legend, and marks it in the plot.
constexpr std::string_view kScript = R"js(
for (const figure of document.querySelectorAll("figure.chart")) {
  const source = figure.querySelector("script");
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  const plot = figure.querySelector(".plot"), at = figure.querySelector(".at");
  const outputs = figure.querySelectorAll("output"), circles = figure.querySelectorAll("circle");
  const cursor = figure.querySelector(".cursor");
  const atRest = Array.from(outputs, output => output.textContent);
  const nearest = (xs, x) => {
    let low = 0, high = xs.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
  };
  const percent = x => 100 * (x - data.low) / (data.high - data.low) + "%";
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    const x = data.low + (event.clientX - box.left) / box.width * (data.high - data.low);
    const points = data.series.map(series => nearest(series.x, x));
    const xs = data.series.map((series, i) => series.x[points[i]]).filter(v => v !== undefined);
    const here = xs.reduce((a, b) => Math.abs(b - x) < Math.abs(a - x) ? b : a);
    data.series.forEach((series, i) => {
      const own = series.x[points[i]];
      if (own === undefined) return;
      outputs[i].textContent = series.text[points[i]] + (own === here ? "" : ` (${own})`);
      circles[i].setAttribute("cx", percent(own));
      circles[i].setAttribute("cy", series.y[points[i]]);
    });
    at.textContent = data.name + " " + here;
    cursor.setAttribute("x1", percent(here));
    cursor.setAttribute("x2", percent(here));
    figure.classList.add("active");
  });
  plot.addEventListener("pointerleave", () => {
    figure.classList.remove("active");
    at.textContent = "";
    outputs.forEach((output, i) => { output.textContent = atRest[i]; });
  });
}
)js";

}  // namespace

std::string html_page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<title>{}</title>\n<style>{}{}{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      escape_html(title), kColors, kStyle, timeline_style(), body, kScript);
}

std::string_view page_colors() {
  return kColors;
}

}  // namespace colossal::report
