"""Prints the records of a .wandb file as JSON: a LevelDB log of protocol buffers. Usage: read_wandb.py FILE"""
import json
import struct
import sys
import zlib

BLOCK = 32768
RECORDS = {2: "history", 3: "summary", 17: "run", 18: "exit", 21: "header"}


def payloads(data):
    """Joins the parts of each record, and checks their checksums."""
    assert struct.unpack("<4sHB", data[:7]) == (b":W&B", 0xBEE1, 0), data[:7]
    at, parts = 7, []
    while at < len(data):
        room = BLOCK - at % BLOCK
        if room < 7:
            assert not any(data[at:at + room])
            at += room
            continue
        checksum, length, kind = struct.unpack("<IHB", data[at:at + 7])
        part = data[at + 7:at + 7 + length]
        assert len(part) == length and at % BLOCK + 7 + length <= BLOCK
        assert checksum == zlib.crc32(part, zlib.crc32(bytes([kind])))
        assert (kind in (1, 2)) == (not parts)
        parts.append(part)
        if kind in (1, 4):
            yield b"".join(parts)
            parts = []
        at += 7 + length
    assert not parts


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """field -> values: numbers, or bytes."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


def items(messages):
    """Of a list of items: key -> value."""
    found = {}
    for message in map(fields, messages):
        (key,) = message.get(1, message.get(2))
        found[key.decode()] = json.loads(message[16][0])
    return found


def record(message):
    (field,) = set(message) & set(RECORDS)
    content, kind = fields(message[field][0]), RECORDS[field]
    if kind in ("history", "summary"):
        content = items(content[1])
    elif kind == "run":
        content = {"id": content[1][0].decode(), "project": content[3][0].decode(), "name": content[8][0].decode(),
                   "config": items(fields(content[4][0])[1])}
    elif kind == "exit":
        content = {"code": content.get(1, [0])[0]}
    else:
        content = {}
    return {"num": message[1][0], "kind": kind, **content}


with open(sys.argv[1], "rb") as file:
    print(json.dumps([record(fields(payload)) for payload in payloads(file.read())]))
