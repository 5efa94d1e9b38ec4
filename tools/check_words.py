#!/usr/bin/env python3
"""Checks that each word has one meaning: docs/glossary.md is the list.

Finds words that were given up, in sources, help and documents, and terms of the glossary that nothing uses. Prints
each as file:line, with the word to use; exit code 1 when there are any. Usage: tools/check_words.py [REPOSITORY]
"""
import pathlib
import re
import sys

# What was given up -> what to write instead.
RETIRED = {
    r"\bslabs?\b": "buffer (of a transfer), shard (of a tensor)",
    r"\b[Ss]eats?\b": "RankState",
    r"\bPatience\b": "SpinThenSleep",
    r"\bMail(Backend|World|box)?\b|\bmailbox(es)?\b": "Message",
    r"\btogether\(": "all_or_none(",
    r"\b(tell|hear)_tiers\b": "pack_tier_metrics, unpack_tier_metrics",
    r"\bStridedPiece\b": "StridedShard",
    r"\bLentTensor\b|\blent_tensor\b": "TransientTensor",
    r"\b[Ss]tretch(es)?\b|\bStretch[A-Z]": "span, TierTransfer, TieredUpdate",
    r"\bKeptTensorWatch\b": "SavedTensorObserver",
    r"go_away|let_go": "transient, release",
    r"\bOwnedPiece\b|\bwritten_pieces?\b": "OwnedShard, checkpoint_shard",
    r"\bhandles_used\b|\baccumulate_whole\b": "uses_parameter_handles, reduce_once_per_step",
    r"\b[Cc]heap_?[Rr]esult": "recomputable result",
    r"\bany_device": "aten_fallback",
    r"\bHeadShare\b": "LocalHeads",
    r"[Qq]uanti[s]": "quantiz...",
}
FOLDERS = ("src", "docs", "tests", "bench", "examples", "tools")
SUFFIXES = {".cpp", ".h", ".md", ".py", ".toml", ".txt", ".cmake"}
TERM = re.compile(r"^\| \*\*([^*]+)\*\* \|")


def texts(root):
    """(path, text) of all sources and documents."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")] + list(root.glob("*.md"))
    for path in sorted(paths):
        if path.suffix in SUFFIXES and path.is_file() and path.name not in ("check_words.py", "check_words_test.py"):
            yield path, path.read_text(encoding="utf-8")


def retired_words(root):
    for path, text in texts(root):
        for pattern, instead in RETIRED.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(root)}:{line}: {match[0]}: write {instead}"


def unused_terms(root):
    glossary = root / "docs" / "glossary.md"
    used = "\n".join(text for path, text in texts(root) if path != glossary).lower()
    for number, line in enumerate(glossary.read_text(encoding="utf-8").split("\n"), 1):
        term = TERM.match(line)
        if term and not re.search(rf"\b{re.escape(term[1])}(e?s)?\b", used):
            yield f"docs/glossary.md:{number}: {term[1]}: nothing uses this term"


def violations(root):
    return [*retired_words(root), *unused_terms(root)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    found = violations(root)
    print("\n".join(found) or "each word has one meaning")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
