// Recompresses screenshots, because the browser writes large files.

import { readFileSync, writeFileSync } from 'node:fs';
import { deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = 8;
// Length, type and checksum of a chunk.
const AROUND = 12;

export function pack(file) {
  const bytes = readFileSync(file);
  const chunks = chunksOf(bytes);
  const pixels = inflateSync(Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data)));
  const header = chunks[0].data;
  const packed = deflateSync(unfiltered(pixels, header), { level: 9, memLevel: 9 });
  const kept = chunks.filter(({ type }) => ['IHDR', 'PLTE', 'tRNS'].includes(type));
  const written = [...kept, { type: 'IDAT', data: packed }, { type: 'IEND', data: Buffer.alloc(0) }];
  const smaller = Buffer.concat([bytes.subarray(0, SIGNATURE), ...written.map(chunk)]);
  if (smaller.length < bytes.length) {
    writeFileSync(file, smaller);
  }
}

// Flat areas compress best without a filter.
function unfiltered(pixels, header) {
  const depth = { 2: 3, 6: 4 }[header[9]];
  const width = header.readUInt32BE(0) * depth;
  const lines = header.readUInt32BE(4);
  const plain = Buffer.alloc(pixels.length);
  for (let line = 0; line < lines; line += 1) {
    const start = line * (width + 1);
    for (let at = start + 1; at <= start + width; at += 1) {
      const isFirst = at - start <= depth;
      const left = isFirst ? 0 : plain[at - depth];
      const up = line === 0 ? 0 : plain[at - width - 1];
      const corner = isFirst || line === 0 ? 0 : plain[at - width - 1 - depth];
      plain[at] = pixels[at] + predicted(pixels[start], left, up, corner);
    }
  }
  return plain;
}

function predicted(filter, left, up, corner) {
  if (filter === 4) {
    const guess = left + up - corner;
    const [a, b, c] = [left, up, corner].map((one) => Math.abs(guess - one));
    return a <= b && a <= c ? left : b <= c ? up : corner;
  }
  return [0, left, up, (left + up) >> 1][filter];
}

function chunksOf(bytes) {
  const chunks = [];
  for (let at = SIGNATURE; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    chunks.push({ type: bytes.toString('latin1', at + 4, at + 8), data: bytes.subarray(at + 8, at + 8 + length) });
    at += length + AROUND;
  }
  return chunks;
}

function chunk({ type, data }) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const whole = Buffer.alloc(data.length + AROUND);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(checksum(body), data.length + 8);
  return whole;
}

// The CRC of PNG.
function checksum(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
    }
  }
  return (sum ^ 0xffffffff) >>> 0;
}
