"""Reads a PNG file by the words of its specification (ISO/IEC 15948), with nothing but Python's own zlib, and says what is in it as JSON:
size, how many colours, how much of it is not the colour of its first pixel. Fails on whatever a reader must refuse.

usage: png.py FILE
"""

import json
import struct
import sys
import zlib

data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n", "signature"
at, chunks = 8, []
while at < len(data):
    (length,) = struct.unpack(">I", data[at : at + 4])
    kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
    (checksum,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
    assert zlib.crc32(kind + content) == checksum, f"checksum of {kind}"
    chunks.append((kind, content))
    at += 12 + length
assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b""), [kind for kind, _ in chunks]
width, height, depth, colour, packing, filtering, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
assert (depth, colour, packing, filtering, interlace) == (8, 2, 0, 0, 0), chunks[0][1]
lines = zlib.decompress(b"".join(content for kind, content in chunks if kind == b"IDAT"))
stride = 3 * width
assert len(lines) == height * (stride + 1), f"{len(lines)} bytes"
above, colours, drawn, first = bytes(stride), set(), 0, None
for row in range(height):
    line = lines[row * (stride + 1) : (row + 1) * (stride + 1)]
    how, line = line[0], line[1:]
    if how == 2:
        line = bytes((one + up) & 255 for one, up in zip(line, above))
    else:
        assert how == 0, f"filter {how}"
    above = line
    pixels = [line[start : start + 3] for start in range(0, stride, 3)]
    first = first or pixels[0]
    colours.update(pixels)
    drawn += sum(pixel != first for pixel in pixels)
print(json.dumps({
    "width": width,
    "height": height,
    "colours": len(colours),
    "corner": first.hex(),
    "percent_drawn": -(-100 * drawn // (width * height)),
}))
