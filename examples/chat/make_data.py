#!/usr/bin/env python3
"""Writes data to make a small chat model from nothing: make_data.py FOLDER

texts.jsonl: plain text about sums, for the base model. chats.jsonl: conversations. pairs.jsonl: two answers to the same
question, the polite one chosen. tokenizer.json: a token for each byte, and the special tokens of ChatML.
"""
import json
import pathlib
import random
import sys

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
          "seventeen eighteen".split()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_alphabet():
    """The character that stands for each byte in byte-level vocabularies, as in GPT-2's."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters, others = {}, 0
    for byte in range(256):
        if byte in printable:
            characters[byte] = chr(byte)
        else:
            characters[byte] = chr(256 + others)
            others += 1
    return characters


def tokenizer():
    vocabulary = {character: byte for byte, character in byte_alphabet().items()}
    special = [{"id": 256 + index, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for index, content in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": byte_level,
            "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}


def sum_of(draw):
    first, second = draw.randrange(10), draw.randrange(10)
    return NUMBERS[first], NUMBERS[second], NUMBERS[first + second]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[0], "model_max_length": 128}))
    with (folder / "texts.jsonl").open("w") as texts, (folder / "chats.jsonl").open("w") as chats, \
            (folder / "pairs.jsonl").open("w") as pairs:
        for _ in range(3000):
            first, second, total = sum_of(draw)
            texts.write(json.dumps({"text": f"The sum of {first} and {second} is {total}."}) + "\n")
        for _ in range(2000):
            first, second, total = sum_of(draw)
            question = {"role": "user", "content": f"What is {first} and {second}?"}
            plain = {"role": "assistant", "content": f"It is {total}."}
            polite = {"role": "assistant", "content": f"It is {total}, if you please."}
            chats.write(json.dumps({"messages": [question, draw.choice([plain, plain, polite])]}) + "\n")
            pairs.write(json.dumps({"prompt": [question], "chosen": [polite], "rejected": [plain]}) + "\n")


if __name__ == "__main__":
    main()
