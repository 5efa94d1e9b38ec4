"""Makes tokenizers with the `tokenizers` library and writes what they give for many texts.

    tokenizer_oracle.py OUTPUT_DIRECTORY BYTES_DIRECTORY NUM_FUZZ_TEXTS SEED

BYTES_DIRECTORY holds the files of the byte tokenizer. For each tokenizer OUTPUT_DIRECTORY gets a
folder with tokenizer.json, texts.bin and tokens.bin: for each text a 32-bit count, then its bytes
or its 32-bit tokens, little-endian. Those whose tokens are text also get sequences.bin (tokens, some
of them drawn at random) and decoded.bin.
"""

import json
import os
import random
import struct
import sys
import sysconfig
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Phi-4, GLM-4's twin LLAMA3, and what DeepSeek, BLOOM, Mistral and Falcon cut by.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
DEEPSEEK = [
    r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
# One expression for each construct that both languages have, in the words of Oniguruma.
CONSTRUCTS = [
    r"\w+", r"\W", r"\d{2,}", r"\D+?\s", r"\s+$", r"^.", r".+", r"x*",
    r"(a|b)c?+", r"(?<=e)\S{,3}", r"(?<!\s)\p{Lu}",
    r"[\s\S]{5}", r"[^\S\n]+", r"[\w.-]+", r"(?i:k[a-f]|s)",
    r"(?i:a(?-i:b)c)", r"\p{^L}+", r"\P{N}{1,4}", r"[\p{P}\p{S}]+",
    r"(?>a+)b", r"\x41|\x{1F600}|\u00e9|\t|\f|\v",
    r"{|}|[{}]", r"[一-龥ぁ-ん]+", r"\p{Mc}", r"(?i:[r-tk]+)", r"[\d\p{Sm}]+",
    r"\p{Z}\p{Cf}?", r"[\]\-\\^]+",
]
SPECIAL = ["<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_1|>"]


def standard_library():
    folder = Path(sysconfig.get_paths()["stdlib"])
    return [path.read_bytes().decode() for path in sorted(folder.glob("*.py"))]


class FuzzTexts:
    ODD_SPACES = list(
        "\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2007\u200a\u200b\u200c\u200d"
        "\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
    ) + ["\r\n", "\n\n", "\r\n\r\n", "  ", "   "]
    CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'ve", "'Ve",
                    "'m", "'ll", "'LL", "'lL", "'d",
                    "'D", "'ſ", "’s",
                    "''s", "'", "'sS", "'x"]
    EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "1️⃣", "👨🏿‍🚒", "🫨", "☺︎"]
    WORDS = ["the", " of", "def", " self", "return", "Straße", "ﬁne", "naïve", "русский",
             "Ελλάδα", "日本語", "한국어", "हिन्दी",
             "العربية", "עברית", "ไทย", "ǅungla", "İstanbul",
             "x86_64", "foo.bar", "==", "!=", "...", "#!/", "=>", "\\n", "\0"]
    # Later than Unicode 14.
    UNSEEN = ["\U00016d6a", "\U000323af", "\U0001e030", "\U00010d40", "\U0001ccf0"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
        category = {c: unicodedata.category(chr(c)) for c in points}
        self.assigned = [c for c in points if category[c] not in ("Cn", "Co")]
        self.points = points
        self.marks = [c for c in points if category[c][0] == "M"]
        self.numbers = [c for c in points if category[c][0] == "N"]
        self.cased = [c for c in points if category[c] in ("Lu", "Ll", "Lt")]
        self.composed = [c for c in points if unicodedata.normalize("NFD", chr(c)) != chr(c)]

    def piece(self):
        pick = self.random.choice

        def characters(pool, most):
            return "".join(chr(pick(pool)) for _ in range(self.random.randint(1, most)))

        return pick([
            lambda: characters(self.points, 4),
            lambda: characters(self.assigned, 6),
            lambda: pick("aeou한") + characters(self.marks, 4),
            lambda: unicodedata.normalize("NFD", characters(self.composed, 3)),
            lambda: characters(self.numbers, 6),
            lambda: characters(self.cased, 5),
            lambda: characters(range(0x20, 0x7F), 8),
            lambda: characters(range(0, 0x500), 6),
            lambda: "".join(pick(self.ODD_SPACES) for _ in range(self.random.randint(1, 4))),
            lambda: pick(self.ODD_SPACES),
            lambda: pick(self.WORDS) + pick(self.CONTRACTIONS),
            lambda: pick(self.CONTRACTIONS),
            lambda: pick(self.WORDS),
            lambda: pick(self.EMOJI),
            lambda: pick(self.UNSEEN),
            lambda: pick(SPECIAL) if self.random.random() < 0.8 else pick(SPECIAL)[:-1],
            lambda: pick(["[MASK]", "[LEFT]", "[RIGHT]", "[WORD]", "[WO", "é"]),
            lambda: pick(["[NORM é]", "[NORM e\u0301]"]),
            lambda: str(self.random.randint(0, 10**9)),
        ])()

    def text(self):
        return "".join(self.piece() for _ in range(self.random.randint(1, 12)))

    def every_character(self, exhaustive):
        """Each character between letters, digits and spaces; of large uniform blocks a sample."""
        pool = self.points if exhaustive else [
            c for c in self.points
            if c % 97 == 0
            or not (0x3400 <= c < 0xA000 or 0xAC00 <= c < 0xD7A4 or 0xE000 <= c < 0xF900
                    or 0x17000 <= c < 0x18D00 or 0x20000 <= c < 0xE0000 or c >= 0xE0200)
        ]
        step = 4000
        groups = [pool[i : i + step] for i in range(0, len(pool), step)]
        return ["".join(f"a{chr(c)}1{chr(c)} {chr(c)}\n" for c in group) for group in groups]


def byte_level(use_regex=True, add_prefix_space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def split(expression, add_prefix_space=False, behavior="isolated", invert=False):
    cut = pre_tokenizers.Split(Regex(expression), behavior, invert)
    return pre_tokenizers.Sequence([cut, byte_level(False, add_prefix_space)])


def train(pre_tokenizer, vocabulary_size, corpus):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary_size, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def rebuilt(tokenizer, change):
    """The tokenizer with its JSON changed in place by `change`."""
    definition = json.loads(tokenizer.to_str())
    change(definition)
    return Tokenizer.from_str(json.dumps(definition))


def make_tokenizers(corpus):
    gpt2 = train(byte_level(), 3000, corpus)
    llama3 = train(split(LLAMA3), 4000, corpus)
    llama3.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_1|>"])
    yield "llama3", rebuilt(llama3, lambda d: d["model"].update(ignore_merges=True))

    flags = rebuilt(gpt2, lambda d: None)
    flags.pre_tokenizer = byte_level(add_prefix_space=True)
    flags.add_special_tokens(["<|endoftext|>", AddedToken("[MASK]", lstrip=True),
                              AddedToken("[LEFT]", lstrip=True),
                              AddedToken("[RIGHT]", rstrip=True)])
    flags.add_tokens([AddedToken("[WORD]", single_word=True), AddedToken("[WO"), AddedToken("é"),
                      AddedToken("<|reserved_1|>", normalized=False, lstrip=True, rstrip=True)])
    yield "added_token_flags", flags

    composed = rebuilt(gpt2, lambda d: None)
    composed.normalizer = normalizers.NFC()
    composed.pre_tokenizer = split(QWEN2)
    composed.add_tokens([AddedToken("[NORM é]", normalized=True),
                         AddedToken("<|endoftext|>", normalized=False)])
    yield "composed", composed

    def lack_bytes(definition):
        model = definition["model"]
        lost = {token for token in model["vocab"] if set(token) & set("eĠàĤ") and token != "e"}
        model["merges"] = [pair for pair in model["merges"]
                           if not {pair[0], pair[1], pair[0] + pair[1]} & lost]
        names = [token for token in model["vocab"] if token not in lost]
        names += ["<unk>", "<|endoftext|>"]
        model["vocab"] = {token: i for i, token in enumerate(names)}

    def with_unknown(fuse):
        def change(definition):
            lack_bytes(definition)
            definition["model"].update(unk_token="<unk>", fuse_unk=fuse)
        return change

    yield "bytes_lacking", rebuilt(gpt2, lack_bytes)
    yield "unknown", rebuilt(gpt2, with_unknown(False))
    yield "unknown_fused", rebuilt(gpt2, with_unknown(True))

    o200k = rebuilt(gpt2, lambda d: None)
    o200k.pre_tokenizer = split(O200K)
    o200k.add_special_tokens(["<|endoftext|>"])
    yield "o200k", o200k
    inverted = rebuilt(gpt2, lambda d: None)
    inverted.pre_tokenizer = split(LLAMA3 + r"|x", behavior="removed", invert=True)
    inverted.add_special_tokens(["<|endoftext|>"])
    yield "removed_inverted", inverted

    for each in (True, False):
        digits = rebuilt(gpt2, lambda d: None)
        digits.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"), pre_tokenizers.Digits(each),
             byte_level()])
        digits.add_special_tokens(["<|endoftext|>"])
        yield f"digits_{each}", digits

    falcon = [pre_tokenizers.Punctuation("contiguous"), byte_level(), pre_tokenizers.Digits(False),
              pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    deepseek = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in DEEPSEEK]
    for name, cut in [("cl100k", split(CL100K)), ("tekken", split(TEKKEN)), ("bloom", split(BLOOM)),
                      ("falcon", pre_tokenizers.Sequence(falcon)),
                      ("deepseek", pre_tokenizers.Sequence([*deepseek, byte_level(False)]))]:
        made = rebuilt(gpt2, lambda d: None)
        made.pre_tokenizer = cut
        made.add_special_tokens(["<|endoftext|>"])
        yield name, made

    gpt2.add_special_tokens(["<|endoftext|>"])
    yield "gpt2", gpt2

    # A prefix space before each piece shows where the pieces are, without any merges.
    for i, expression in enumerate(CONSTRUCTS):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        plain = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
        plain.pre_tokenizer = split(expression, add_prefix_space=True)
        plain.add_special_tokens(["<|endoftext|>"])
        yield f"construct_{i:02}", plain
    cuts = {f"{behavior}_{invert}": pre_tokenizers.Split(Regex(r"\s+|e|x*|\p{P}"), behavior, invert)
            for behavior in BEHAVIORS for invert in (False, True)}
    cuts |= {f"punctuation_{behavior}": pre_tokenizers.Punctuation(behavior)
             for behavior in BEHAVIORS}
    cuts |= {"whitespace": pre_tokenizers.Whitespace(), "bert": pre_tokenizers.BertPreTokenizer(),
             "whitespace_split": pre_tokenizers.WhitespaceSplit(),
             "delimiter": pre_tokenizers.CharDelimiterSplit("e"),
             "digits": pre_tokenizers.Digits(True)}
    for name, cut in cuts.items():
        made = rebuilt(plain, lambda d: None)
        made.pre_tokenizer = pre_tokenizers.Sequence([cut, byte_level(False, True)])
        yield f"cut_{name}", made


SPACE = "▁"
CHARACTERS = "characters"  # begins the names of tokenizers whose tokens are text


def train_characters(corpus, split=True):
    """BPE of characters with all bytes to fall back to, as Llama 2 has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", split)
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=3000, show_progress=False, limit_alphabet=600))

    def with_bytes(definition):
        model = definition["model"]
        names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        names += [token for token in model["vocab"]]
        model.update(vocab={token: i for i, token in enumerate(names)}, byte_fallback=True,
                     unk_token="<unk>", fuse_unk=True)

    tokenizer = rebuilt(tokenizer, with_bytes)
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def make_character_tokenizers(corpus):
    plain = train_characters(corpus)

    def made(name, change=lambda definition: None, **parts):
        tokenizer = rebuilt(plain, change)
        for part, value in parts.items():
            setattr(tokenizer, part, value)
        return f"{CHARACTERS}_{name}", tokenizer

    llama2 = dict(normalizer=normalizers.Sequence([normalizers.Prepend(SPACE),
                                                   normalizers.Replace(" ", SPACE)]))
    for normalized in (False, True):
        name, tokenizer = made(f"llama2_{normalized}", **llama2)
        tokenizer.add_special_tokens([AddedToken(token, normalized=normalized)
                                      for token in ("<unk>", "<s>", "</s>", "<|endoftext|>")])
        tokenizer.add_tokens(["[WORD]", AddedToken("[LEFT]", lstrip=True, normalized=False)])
        yield name, tokenizer

    def lack_bytes(definition):
        model = definition["model"]
        lost = {f"<0x{byte:02X}>" for byte in range(0xE4, 0x100)}
        model["merges"] = [pair for pair in model["merges"] if not set(pair) & lost]
        names = [token for token in model["vocab"] if token not in lost]
        model["vocab"] = {token: i for i, token in enumerate(names)}

    def lack_bytes_unfused(definition):
        lack_bytes(definition)
        definition["model"]["fuse_unk"] = False

    yield made("lacking_bytes", lack_bytes, **llama2)
    yield made("lacking_bytes_unfused", lack_bytes_unfused, **llama2)
    yield made("no_unknown", lambda definition: (
        lack_bytes(definition), definition["model"].update(unk_token=None)), **llama2)
    yield made("whole_words", lambda definition: definition["model"].update(ignore_merges=True),
               pre_tokenizer=pre_tokenizers.Metaspace(SPACE, "always"))
    for scheme in ("first", "always", "never"):
        for split in (False, True):
            metaspace = pre_tokenizers.Metaspace(SPACE, scheme, split)
            name, tokenizer = made(f"{scheme}_{split}", pre_tokenizer=metaspace)
            if split:
                tokenizer.decoder = decoders.Sequence(
                    [decoders.Metaspace(SPACE, scheme), decoders.ByteFallback()])
            tokenizer.add_special_tokens(["<s>", "</s>", "<|endoftext|>", "<|reserved_1|>"])
            yield name, tokenizer
    digits = [pre_tokenizers.Digits(False), pre_tokenizers.Metaspace(SPACE, "first")]
    yield made("digits", pre_tokenizer=pre_tokenizers.Sequence(digits))
    rules = [normalizers.Replace(Regex(r"\s{2,}"), " "), normalizers.Replace("e", ""),
             normalizers.NFC(), normalizers.Replace(Regex(r"(?=\p{Lu})"), SPACE)]
    yield made("rules", normalizer=normalizers.Sequence(rules),
               decoder=decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Replace("a ", "o"),
                                          decoders.Fuse()]))
    # Tokens with a space within.
    across = train_characters([line for text in corpus[::4] for line in text.splitlines()], split=False)
    across.normalizer = llama2["normalizer"]
    yield f"{CHARACTERS}_across", across
    yield f"{CHARACTERS}_across_whole", rebuilt(
        across, lambda definition: definition["model"].update(ignore_merges=True))


    yield made("gemma", normalizer=normalizers.Replace(" ", SPACE),
               pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
               decoder=decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(),
                                          decoders.Fuse()]))
    # Every character is a token or falls back to bytes: tokens show the normalized text.
    for name, normalizer in {
            "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(),
            "lowercase": normalizers.Lowercase(), "strip": normalizers.Strip(),
            "strip_right": normalizers.Strip(False, True), "nmt": normalizers.Nmt(),
            "strip_accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
            "bert": normalizers.BertNormalizer(), "charsmap": charsmap(),
            "bert_cased": normalizers.BertNormalizer(lowercase=False, clean_text=False),
    }.items():
        yield made(f"normalized_{name}", normalizer=normalizer)


def double_array(keys):
    """Darts-clone's units for byte strings and their values."""
    children, values = [{}], {}
    for key, value in keys.items():
        node = 0
        for byte in key + b"\0":
            if byte not in children[node]:
                children[node][byte] = len(children)
                children.append({})
            node = children[node][byte]
        values[node] = value
    units, taken = {0: 0}, {0}

    def place(node, position):
        base = position & 0xFF or 1
        while any(base ^ byte in taken for byte in children[node]) or position ^ base >= 1 << 21:
            base += 1
        taken.update(base ^ byte for byte in children[node])
        leaf = 1 << 8 if 0 in children[node] else 0
        units[position] = units[position] & 0xFF | leaf | (position ^ base) << 10
        for byte, child in children[node].items():
            units[base ^ byte] = byte if byte else values[child] | 1 << 31
        return [(child, base ^ byte) for byte, child in children[node].items() if byte]

    waiting = [(0, 0)]
    while waiting:
        waiting += place(*waiting.pop())
    size = max(units) // 256 * 256 + 256
    return struct.pack(f"<{size}I", *(units.get(i, 0) for i in range(size)))


def charsmap():
    """NFKC of some blocks, pairs with accents, and capitals to small letters, as in nmt_nfkc_cf."""
    points = [*range(0x80, 0x250), *range(0x2000, 0x2070), *range(0x2100, 0x2200),
              *range(0x3300, 0x3360), *range(0xFB00, 0xFB07), *range(0xFF01, 0xFF60)]
    replaced = {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in points}
    replaced |= {a + m: unicodedata.normalize("NFC", a + m) for a in "AEe" for m in "\u0300\u0301"}
    replaced |= {chr(c): chr(c).lower() for c in range(ord("A"), ord("Z"))}
    replaced |= {"\t": " ", "\r": " ", "\x01": "", "\u200b": "", "❤\ufe0f": "<3", "1": "i"}
    places, table = {}, b""
    for key, value in replaced.items():
        if key != value:
            places[key.encode()] = len(table)
            table += value.encode() + b"\0"
    trie = double_array(places)
    return normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + table)


def make_unigram_tokenizers(corpus):
    metaspace = pre_tokenizers.Metaspace(SPACE, "always")
    t5 = Tokenizer(models.Unigram())
    t5.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    t5.train_from_iterator(corpus, trainers.UnigramTrainer(
        vocab_size=1500, show_progress=False, n_sub_iterations=1, max_piece_length=12,
        unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]))
    t5.normalizer = charsmap()
    t5.decoder = decoders.Metaspace(SPACE, "always")
    yield "unigram_t5", t5
    albert = rebuilt(t5, lambda d: None)
    albert.normalizer = normalizers.Sequence(
        [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
         normalizers.Lowercase(), charsmap(), normalizers.Replace(Regex(" {2,}"), " ")])
    albert.pre_tokenizer = metaspace
    yield "unigram_albert", albert

    def with_bytes(first_lost):
        def change(definition):
            model = definition["model"]
            model["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(first_lost)]
            model["byte_fallback"] = True
            definition["normalizer"] = None
        return change

    for split, first_lost in ((True, 0x100), (False, 0xE0)):
        made = rebuilt(t5, with_bytes(first_lost))
        made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "first", split)
        made.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
             decoders.Strip(" ", 1, 0)])
        yield f"unigram_bytes_{split}", made


def make_word_piece_tokenizer(corpus):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(corpus, trainers.WordPieceTrainer(
        vocab_size=2000, show_progress=False, limit_alphabet=300,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.decoder = decoders.WordPiece()
    yield "word_piece", tokenizer


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def write_cases(folder, texts, encode):
    texts_file, tokens_file = folder / "texts.bin", folder / "tokens.bin"
    with texts_file.open("wb") as text_stream, tokens_file.open("wb") as token_stream:
        for text in texts:
            data, tokens = text.encode(), encode(text)
            text_stream.write(struct.pack("<I", len(data)) + data)
            token_stream.write(struct.pack(f"<I{len(tokens)}i", len(tokens), *tokens))


def write_prompts(folder, tokenizer, texts):
    """Tokens with the special ones that each kind of post-processor adds."""
    definition = (folder / "tokenizer.json").read_text()
    for i, processor in enumerate([
            processors.TemplateProcessing(single="<s> $A </s> <s>", pair="$A $B",
                                          special_tokens=[("<s>", 1), ("</s>", 2)]),
            processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
            processors.Sequence([
                processors.ByteLevel(),
                processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])])]):
        made = Tokenizer.from_str(definition)
        made.post_processor = processor
        prompts = folder / f"prompts_{i}"
        prompts.mkdir(exist_ok=True)
        made.save(str(prompts / "tokenizer.json"))
        write_cases(prompts, texts, lambda text: made.encode(text).ids)


def write_decodings(folder, tokenizer, texts, random):
    """Of texts, and of tokens in any order: bytes that make characters, or do not."""
    numbers = range(tokenizer.get_vocab_size())
    sequences = [encode(tokenizer, text) for text in texts]
    for _ in range(len(texts)):
        pools = [numbers, range(3, 259), tokenizer.encode("é日😀\x01", add_special_tokens=False).ids]
        sequences.append([random.choice(random.choice(pools))
                          for _ in range(random.randint(0, 8))])
    with (folder / "sequences.bin").open("wb") as tokens, (folder / "decoded.bin").open("wb") as out:
        for sequence in sequences:
            data = tokenizer.decode(sequence, skip_special_tokens=False).encode()
            tokens.write(struct.pack(f"<I{len(sequence)}i", len(sequence), *sequence))
            out.write(struct.pack("<I", len(data)) + data)


def write_legacy_merges(path):
    """GPT-2's own file has merges as "a b", and no "type" of the model."""
    definition = json.loads(path.read_text())
    definition["model"]["merges"] = [" ".join(pair) for pair in definition["model"]["merges"]]
    del definition["model"]["type"]
    path.write_text(json.dumps(definition))


def token(content, **flags):
    return {**dict(content=content, lstrip=False, rstrip=False, normalized=False, single_word=False, special=True), **flags}


# By name: the files beside a tokenizer.json of bytes and the token "</s>" (256).
COMPANIONS = {
    "decoder": {"tokenizer_config.json": dict(eos_token="<|im_end|>", added_tokens_decoder={
        "257": token("<|im_start|>"), "258": token("<|im_end|>")})},
    "decoder_hides_the_map": {
        "tokenizer_config.json": dict(eos_token="<a>", added_tokens_decoder={"257": token("<a>")}),
        "special_tokens_map.json": dict(eos_token="</s>", pad_token="<pad>"),
        "added_tokens.json": {"<b>": 258}},
    "map_wins": {"tokenizer_config.json": dict(eos_token="<a>"),
                 "special_tokens_map.json": dict(eos_token=token("<b>", rstrip=True))},
    "added": {"tokenizer_config.json": dict(eos_token="<|end|>"),
              "added_tokens.json": {"<|end|>": 258, "plain": 257}},
    "named_only": {"tokenizer_config.json": dict(eos_token="<e>", bos_token="<b>", pad_token="<e>", image_token="<image>",
                                                 additional_special_tokens=["<x>", token("<y>", __type="AddedToken", lstrip=True)])},
    "of_the_vocabulary": {"tokenizer_config.json": dict(eos_token="A", unk_token="</s>")},
    "other_flags": {"tokenizer_config.json": dict(eos_token="</s>", added_tokens_decoder={
        "256": token("</s>", lstrip=True, rstrip=True), "257": token("word", special=False, single_word=True)})},
    "extra_names": {"tokenizer_config.json": dict(eos_token="</s>", extra_special_tokens={"boi_token": "<boi>"})},
}


def write_companions(output, texts):
    from transformers import AutoTokenizer

    contents = ["</s>", "<|im_start|>", "<|im_end|>", "<a>", "<b>", "<pad>", "<|end|>", "plain", "<e>", "<image>", "<x>", "<y>",
                "A", "word", "words", "<boi>"]
    texts = texts[:30] + [f"a {content} b{content}{content} \n {content}" for content in contents] + contents
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level(), decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    for name, files in COMPANIONS.items():
        folder = output / f"companion_{name}"
        folder.mkdir(parents=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        for file, content in files.items():
            if file == "tokenizer_config.json":
                content = dict(content, tokenizer_class="PreTrainedTokenizerFast")
            (folder / file).write_text(json.dumps(content))
        theirs = AutoTokenizer.from_pretrained(folder)
        write_cases(folder, texts, lambda text: theirs.encode(text, add_special_tokens=False))
        (folder / "end").write_text(str(theirs.eos_token_id))


def main():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    output, bytes_folder = Path(sys.argv[1]), Path(sys.argv[2])
    num_fuzz_texts, seed = int(sys.argv[3]), int(sys.argv[4])
    exhaustive = num_fuzz_texts > 5000
    sources = standard_library()
    fuzz = FuzzTexts(seed)
    fuzz_texts = [""] + [fuzz.text() for _ in range(num_fuzz_texts)]
    characters = fuzz.every_character(exhaustive)
    for name, tokenizer in [*make_tokenizers(sources[::8]),
                            *make_character_tokenizers(sources[::8] + fuzz_texts),
                            *make_unigram_tokenizers(sources[::60]),
                            *make_word_piece_tokenizer(sources[::40])]:
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        if name == "gpt2":
            write_legacy_merges(folder / "tokenizer.json")
        texts = fuzz_texts[: len(fuzz_texts) // 2] + characters[:: 1 if exhaustive else 32]
        if name in ("gpt2", "llama3"):
            texts = fuzz_texts + characters[:: 1 if exhaustive else 4] + sources[:: 1 if exhaustive else 24]
        if name.startswith("construct"):
            texts = fuzz_texts[: num_fuzz_texts // 8] + characters[: 2 if exhaustive else 1]
        if name.startswith("cut"):
            texts = fuzz_texts[: num_fuzz_texts // 20] + characters[:: 9 if exhaustive else 99]
        if name.startswith((CHARACTERS, "unigram", "word_piece")):
            texts = fuzz_texts[: num_fuzz_texts // 3] + sources[:: 1 if exhaustive else 80]
            if "normalized" in name or "unigram" in name:
                texts = fuzz_texts[: num_fuzz_texts // 8] + characters[:: 1 if exhaustive else 4 if "charsmap" in name else 20]
            if "unigram" in name:
                texts += sources[:: 1 if exhaustive else 80]
            write_decodings(folder, tokenizer, fuzz_texts[: num_fuzz_texts // 4] + sources[:: 80 if exhaustive else 160],
                            fuzz.random)
        if name == f"{CHARACTERS}_llama2_False":
            write_prompts(folder, tokenizer, fuzz_texts[:50])
        write_cases(folder, texts, lambda text: encode(tokenizer, text))

    from transformers import AutoTokenizer

    write_companions(output, fuzz_texts)
    folder = output / "bytes"
    folder.mkdir(parents=True, exist_ok=True)
    by_transformers = AutoTokenizer.from_pretrained(bytes_folder)
    assert by_transformers.eos_token_id == 256 and len(by_transformers) == 257
    by_tokenizers = Tokenizer.from_file(str(bytes_folder / "tokenizer.json"))
    for text in fuzz_texts:
        if "<|endoftext|>" not in text:
            assert encode(by_tokenizers, text) == list(text.encode()), repr(text)
            assert by_tokenizers.decode(list(text.encode())) == text
    write_cases(folder, fuzz_texts,
                lambda text: by_transformers.encode(text, add_special_tokens=False))


if __name__ == "__main__":
    main()
