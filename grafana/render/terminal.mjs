// Draws the output of a program on a terminal of 80 columns, for the picture of the on-call screen.
//
//   node terminal.mjs --text FILE --title "redrive dlq" --out FILE.png

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { browse } from './browser.mjs';
import { pack } from './png.mjs';

const COLUMNS = 80;
// The size of a character and the padding, in pixels.
const WIDTH = 9;
const HEIGHT = 20;
const MARGIN = 20;

const { values: options } = parseArgs({ options: { text: { type: 'string' }, title: { type: 'string' }, out: { type: 'string' } } });
const lines = [`$ ${options.title}`, '', ...readFileSync(options.text, 'utf8').trimEnd().split('\n')];
const plain = lines.map((line) => line.replaceAll(/\u001b\[[0-9;]*m/g, ''));
const wide = plain.filter((line) => [...line].length > COLUMNS);
if (plain.length < 4 || wide.length > 0) {
  console.error(`    ${options.title}: ${plain.length - 2} lines; wider than ${COLUMNS} columns: ${wide.length}`, wide);
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'redrive-terminal-'));
const page = join(folder, 'page.html');
writeFileSync(page, html());
await browse(pathToFileURL(page).href, {
  profile: join(folder, 'profile'),
  picture: options.out,
  width: COLUMNS * WIDTH + 2 * MARGIN,
  height: lines.length * HEIGHT + 2 * MARGIN,
});
rmSync(folder, { recursive: true, force: true });
if (!existsSync(options.out)) {
  console.error(`    ${options.title}: the browser drew nothing`);
  process.exit(1);
}
pack(options.out);
console.log(`${options.title}: ${plain.length - 2} lines drawn`);

// One cell per character, so that columns align in any font.
function html() {
  const rows = lines.map((line) => `<div>${cells(line)}</div>`).join('\n');
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: ${MARGIN}px; background: #181b1f; color: #d5d7db; font: 15px/${HEIGHT}px 'DejaVu Sans Mono', 'Liberation Mono', monospace; }
    div { height: ${HEIGHT}px; white-space: nowrap; }
    i { display: inline-block; width: ${WIDTH}px; font-style: normal; white-space: pre; overflow: hidden; vertical-align: top; height: ${HEIGHT}px; }
    .b { color: #fff; font-weight: bold; } .r { color: #ff7383; } .g { color: #73bf69; }
  </style>${rows}`;
}

function cells(line) {
  const styles = { 1: 'b', 31: 'r', 32: 'g' };
  let style = '';
  return line
    .split(/(\u001b\[[0-9;]*m)/)
    .map((part) => {
      if (part.startsWith('\u001b')) {
        const codes = part.slice(2, -1).split(';');
        style = codes.map((code) => styles[code] ?? '').join(' ');
        return '';
      }
      return [...part].map((letter) => `<i class="${style}">${letter.replace(/[&<]/, (one) => `&#${one.codePointAt(0)};`)}</i>`).join('');
    })
    .join('');
}
