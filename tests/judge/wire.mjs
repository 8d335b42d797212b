// Just enough of the protobuf wire format to talk to the trace processor.

/** One field: a varint when `value` is a number or bigint, else length-delimited bytes. */
export function field(number, value) {
  if (typeof value === 'number' || typeof value === 'bigint') {
    return Buffer.concat([varint(number << 3), varint(value)]);
  }
  const bytes = Buffer.from(value);
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/** Walks over encoded bytes; numbers come out as signed 64-bit bigints. */
export class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get done() {
    return this.at >= this.bytes.length;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (this.done) throw new RangeError('truncated varint');
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
  }

  take(length) {
    if (this.at + length > this.bytes.length) throw new RangeError('truncated field');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** All fields as `[number, value]`. */
  *fields() {
    while (!this.done) {
      const tag = Number(this.varint());
      switch (tag & 7) {
        case 0: yield [tag >>> 3, this.varint()]; break;
        case 1: yield [tag >>> 3, this.take(8)]; break;
        case 2: yield [tag >>> 3, this.take(Number(this.varint()))]; break;
        case 5: yield [tag >>> 3, this.take(4)]; break;
        default: throw new Error(`wire type ${tag & 7} is not expected here`);
      }
    }
  }
}
