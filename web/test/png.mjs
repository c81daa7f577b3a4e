// Makes pictures small: at most 256 colours, which is enough for pages. Reads what Chromium writes (8 bits, no interlace).
import { deflateSync, inflateSync, crc32 } from "node:zlib";

function chunks(png) {
  const all = [];
  for (let at = 8; at < png.length; ) {
    const size = png.readUInt32BE(at);
    all.push([png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + size)]);
    at += size + 12;
  }
  return all;
}

// pixels undoes the filters of the lines.
function pixels(png) {
  const all = chunks(png);
  const head = all.find(([name]) => name === "IHDR")[1];
  const [width, height, bytes] = [head.readUInt32BE(0), head.readUInt32BE(4), head[9] === 6 ? 4 : 3];
  const raw = inflateSync(Buffer.concat(all.filter(([name]) => name === "IDAT").map(([, data]) => data)));
  const line = width * bytes;
  const out = Buffer.alloc(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x++) {
      const left = x >= bytes ? out[y * line + x - bytes] : 0;
      const up = y > 0 ? out[(y - 1) * line + x] : 0;
      const corner = x >= bytes && y > 0 ? out[(y - 1) * line + x - bytes] : 0;
      const p = left + up - corner;
      const [a, b, c] = [Math.abs(p - left), Math.abs(p - up), Math.abs(p - corner)];
      const guess = [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
      out[y * line + x] = raw[y * (line + 1) + 1 + x] + guess;
    }
  }
  return { width, height, bytes, out };
}

/** small returns the same picture with the colours that are used most, and the nearest of them for the others. */
export function small(png) {
  const { width, height, bytes, out } = pixels(png);
  const used = new Map();
  const colour = (i) => (out[i * bytes] << 16) | (out[i * bytes + 1] << 8) | out[i * bytes + 2];
  for (let i = 0; i < width * height; i++) used.set(colour(i), (used.get(colour(i)) ?? 0) + 1);
  // First the commonest colour of each neighbourhood, so that a rare hue is kept, then the commonest of all.
  const common = [...used].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([c]) => c);
  const neighbourhoods = new Map();
  for (const c of common) if (!neighbourhoods.has(c & 0xe0e0e0)) neighbourhoods.set(c & 0xe0e0e0, c);
  const palette = [...new Set([...[...neighbourhoods.values()].slice(0, 160), ...common])].slice(0, 256);
  const nearest = new Map(palette.map((c, i) => [c, i]));
  const place = (c) => {
    let best = nearest.get(c);
    if (best !== undefined) return best;
    let least = Infinity;
    palette.forEach((p, i) => {
      const d = ((p >> 16) - (c >> 16)) ** 2 + (((p >> 8) & 255) - ((c >> 8) & 255)) ** 2 + ((p & 255) - (c & 255)) ** 2;
      if (d < least) [least, best] = [d, i];
    });
    nearest.set(c, best);
    return best;
  };
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) lines[y * (width + 1) + 1 + x] = place(colour(y * width + x));
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
    const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    size.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([size, body, sum]);
  };
  const colours = Buffer.from(palette.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]));
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", head), chunk("PLTE", colours), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
