#include "colossal/server/chat_page.h"

namespace colossal::server {

std::string_view chat_page_markdown() {
  return R"page(
const element = (tag, kind, ...children) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...children);
  return made;
};

const button = (label, action, kind = "plain") => {
  const made = element("button", kind, label);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
};

// navigator.clipboard exists only on pages of https and localhost.
async function copyText(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const label = from.textContent;
  if (label === "Copied") return;
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = label; }, 1500);
}

// What is inside of a line: code, links, bold, italic and struck text.
const kInline = /(`+)([^]*?[^`])\1(?!`)|\[([^\[\]]+)\]\(([^\s()]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"*])|\*\*(?=\S)((?:[^*]|\*(?!\*))*[^\s*])\*\*|\*(?=[^\s*])([^*\n]*[^\s*])\*|(?<![\w_])_(?=[^\s_])([^_\n]*[^\s_])_(?![\w_])|~~(?=\S)([^~]*[^\s~])~~|\\([\\`*_{}\[\]()#+\-.!~>|])/g;

function link(address, ...content) {
  if (!/^(https?:|mailto:)/i.test(address)) return element("span", "", ...content, " (" + address + ")");
  const made = element("a", "", ...content);
  made.href = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

function renderInline(text, depth = 0) {
  const nodes = [];
  let end = 0;
  if (depth > 8) return [text];
  for (const found of text.matchAll(kInline)) {
    if (found.index > end) nodes.push(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [, , code, label, address, site, bold, italic, italic2, struck, escaped] = found;
    const inner = part => renderInline(part, depth + 1);
    if (code !== undefined) nodes.push(element("code", "", code));
    else if (label !== undefined) nodes.push(link(address, ...inner(label)));
    else if (site !== undefined) nodes.push(link(site, site));
    else if (bold !== undefined) nodes.push(element("strong", "", ...inner(bold)));
    else if (italic !== undefined) nodes.push(element("em", "", ...inner(italic)));
    else if (italic2 !== undefined) nodes.push(element("em", "", ...inner(italic2)));
    else if (struck !== undefined) nodes.push(element("del", "", ...inner(struck)));
    else nodes.push(escaped);
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

const kFence = /^(\s{0,3})(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const kItem = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kHeading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const kRule = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/;
const kTableRule = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

const isOrdered = line => /\d/.test((line.match(kItem) || ["", "", "-"])[2]);

// Divides lines into blocks {kind, lines, ...}.
function splitBlocks(lines) {
  const blocks = [];
  let block = null;
  const begin = (kind, more) => { block = {kind, lines: [], ...more}; blocks.push(block); };
  for (let i = 0; i < lines.length; ++i) {
    const line = lines[i], fence = line.match(kFence);
    if (block && block.kind === "code") {
      if (line.trim().startsWith(block.fence) && !line.trim().replaceAll(block.fence[0], "")) block = null;
      else block.lines.push(line);
    } else if (block && block.kind === "list" && !(/^\S/.test(line) && isOrdered(line) !== block.ordered) && (/^\s{2,}\S/.test(line) || kItem.test(line) && !kRule.test(line) || !line.trim() && /^(\s{2,}\S|\s*([-*+]|\d{1,9}[.)])\s)/.test(lines[i + 1] || ""))) {
      block.lines.push(line);
    } else if (fence) {
      begin("code", {fence: fence[2], language: fence[3]});
    } else if (!line.trim()) {
      block = null;
    } else if (kHeading.test(line)) {
      begin("heading"); block.lines.push(line); block = null;
    } else if (kRule.test(line)) {
      begin("rule"); block = null;
    } else if (/^\s{0,3}>/.test(line)) {
      if (!block || block.kind !== "quote") begin("quote");
      block.lines.push(line.replace(/^\s{0,3}>\s?/, ""));
    } else if (kItem.test(line)) {
      begin("list", {ordered: isOrdered(line)}); block.lines.push(line);
    } else if (line.includes("|") && kTableRule.test(lines[i + 1] || "") && (lines[i + 1] || "").includes("-") && (!block || block.kind !== "table")) {
      begin("table"); block.lines.push(line);
    } else if (block && block.kind === "table" && line.includes("|")) {
      block.lines.push(line);
    } else {
      if (!block || block.kind !== "paragraph") begin("paragraph");
      block.lines.push(line);
    }
  }
  return blocks;
}

function renderCode(block) {
  const text = block.lines.join("\n");
  return element("div", "code",
    element("div", "bar", block.language || "code", button("Copy", event => copyText(text, event.target))),
    element("pre", "", element("code", "", text)));
}

function renderList(block, depth) {
  const first = block.lines[0].match(kItem), indent = first[1].length;
  const list = element(/\d/.test(first[2]) ? "ol" : "ul");
  if (list.tagName === "OL") list.start = parseInt(first[2], 10);
  let item = [];
  const end = () => {
    if (!item.length) return;
    const made = element("li"), blocks = splitBlocks(item);
    for (const [i, inner] of blocks.entries())
      if (inner.kind === "paragraph" && i === 0) made.append(...renderInline(inner.lines.join("\n"))); else made.append(renderBlock(inner, depth + 1));
    list.append(made);
  };
  for (const line of block.lines) {
    const found = line.match(kItem);
    if (found && found[1].length <= indent + 1) { end(); item = [found[3]]; }
    else item.push(line.replace(/^\s{1,4}/, ""));
  }
  end();
  return list;
}

function renderTable(block) {
  const cells = line => line.trim().replace(/^\||\|$/g, "").split("|").map(cell => cell.trim());
  const row = (line, tag) => element("tr", "", ...cells(line).map(cell => element(tag, "", ...renderInline(cell))));
  return element("div", "table", element("table", "", element("thead", "", row(block.lines[0], "th")),
    element("tbody", "", ...block.lines.slice(2).map(line => row(line, "td")))));
}

function renderBlock(block, depth = 0) {
  const text = block.lines.join("\n");
  if (block.kind === "code") return renderCode(block);
  if (block.kind === "heading") {
    const [, marks, title] = text.match(kHeading);
    return element("h" + marks.length, "", ...renderInline(title));
  }
  if (block.kind === "rule") return element("hr");
  if (block.kind === "table") return renderTable(block);
  if (depth < 8 && block.kind === "list") return renderList(block, depth);
  if (depth < 8 && block.kind === "quote") return element("blockquote", "", ...splitBlocks(block.lines).map(inner => renderBlock(inner, depth + 1)));
  const paragraph = element("p");
  for (const [i, line] of block.lines.entries()) {
    if (i > 0) paragraph.append(element("br"));
    paragraph.append(...renderInline(line));
  }
  return paragraph;
}

// Blocks that are there already stay as they are: while an answer comes, only its last block changes.
function renderMarkdown(source, place) {
  const blocks = splitBlocks(source.split("\n"));
  for (const [i, block] of blocks.entries()) {
    const key = JSON.stringify(block), old = place.children[i];
    if (old && old.key === key) continue;
    const made = renderBlock(block);
    made.key = key;
    if (old) old.replaceWith(made); else place.append(made);
  }
  while (place.children.length > blocks.length) place.lastChild.remove();
}
)page";
}

}  // namespace colossal::server
