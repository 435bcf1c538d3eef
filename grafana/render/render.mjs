// Draws dashboards in a headless browser with the data of a live Prometheus. Fails if a panel cannot be
// drawn.
//
//   node render.mjs --prometheus URL --from SECONDS --to SECONDS --out FOLDER
//                   [--scrape SECONDS] [--width PIXELS] [--mode dark|light] DASHBOARD.json…

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { build } from 'esbuild';

import { Ranges } from '../check/ranges.mjs';
import { PATIENCE, browse } from './browser.mjs';
import { opened } from './layout.mjs';
import { pack } from './png.mjs';

// The axes alone have more pixels.
const LEAST_INK = 200;

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    prometheus: { type: 'string' },
    from: { type: 'string' },
    to: { type: 'string' },
    out: { type: 'string' },
    scrape: { type: 'string', default: '15' },
    width: { type: 'string', default: '1600' },
    mode: { type: 'string', multiple: true, default: ['dark'] },
  },
});
const from = Number(options.from);
const to = Number(options.to);
const ranges = new Ranges(options.prometheus, { from, to, scrape: Number(options.scrape) });

let failed = !unitsAgree();
const script = await bundle();
for (const mode of options.mode) {
  for (const file of files) {
    const name = basename(file, '.json');
    const picture = join(options.out, mode === 'dark' ? `${name}.png` : `${name}-${mode}.png`);
    const report = await draw(JSON.parse(readFileSync(file, 'utf8')), mode, picture);
    pack(picture);
    const complaints = complaintsOf(report);
    console.log(`${name}, ${mode}: ${report.drawn.length} panels drawn, ${complaints.length} complaints`);
    complaints.forEach((complaint) => console.error(`    ${name}: ${complaint}`));
    failed ||= complaints.length > 0;
  }
}
await control(JSON.parse(readFileSync(files[0], 'utf8')));
process.exit(failed ? 1 : 0);

// Negative control: each panel that cannot be drawn must be reported.
async function control(dashboard) {
  const panels = dashboard.panels.filter(({ type }) => type !== 'row');
  const of = (wanted) => panels.find(({ type }) => type === wanted);
  const planted = [
    { ...of('timeseries'), targets: [{ refId: 'A', expr: 'redrive_nothing_of_the_kind' }] },
    { ...of('stat'), targets: [{ refId: 'A', expr: 'sum(', instant: true }] },
    { ...of('table'), targets: [{ refId: 'A', expr: 'redrive_nothing_of_the_kind', format: 'table', instant: true }] },
    { ...of('timeseries'), type: 'speedometer' },
  ].map((panel, at) => ({ ...panel, id: at, title: `planted ${at}`, gridPos: { x: 0, y: 8 * at, w: 8, h: 8 } }));
  const folder = mkdtempSync(join(tmpdir(), 'redrive-control-'));
  const report = await draw({ ...dashboard, panels: planted }, 'dark', join(folder, 'control.png'));
  rmSync(folder, { recursive: true });
  const complaints = complaintsOf(report).join('\n');
  for (const { title } of planted.filter(({ title }) => !complaints.includes(title))) {
    failed = true;
    console.error(`    negative control: ${title} passes`);
  }
  console.log(`${planted.length} planted panels`);
}

// Compares the list of the unit gate with that of Grafana.
function unitsAgree() {
  const source = new URL('node_modules/@grafana/data/dist/esm/valueFormats/categories.mjs', import.meta.url);
  const theirs = [...readFileSync(source, 'utf8').matchAll(/\bid: "([^"]+)"/g)].map(([, id]) => id);
  const ours = JSON.parse(readFileSync(new URL('../check/units.json', import.meta.url), 'utf8'));
  const isSame = JSON.stringify([...new Set(theirs)].sort()) === JSON.stringify(ours);
  if (!isSame) {
    console.error('    check/units.json differs from the list of units of @grafana/data');
  }
  return isSame;
}

// Returns the errors of a drawn dashboard.
function complaintsOf({ problems, drawn }) {
  const complaints = [...problems];
  if (drawn.length === 0) {
    complaints.push('nothing was drawn');
  }
  for (const { title, type, what, inks, values, text } of drawn) {
    if (what === 'not drawn') {
      complaints.push(`panel "${title}" (${type}) was not drawn`);
    } else if (values === 0) {
      complaints.push(`panel "${title}" (${type}) has nothing to show`);
    } else if ((what === 'graph' || what === 'heatmap') && inks < LEAST_INK) {
      complaints.push(`panel "${title}" (${type}) is blank`);
    } else if ((what === 'stat' || what === 'table') && text.trim() === '') {
      complaints.push(`panel "${title}" (${type}) says nothing`);
    }
  }
  return complaints;
}

async function bundle() {
  const page = fileURLToPath(new URL('page.jsx', import.meta.url));
  const made = await build({
    entryPoints: [page],
    bundle: true,
    write: false,
    outdir: 'out',
    format: 'iife',
    jsx: 'automatic',
    logLevel: 'error',
    loader: { '.svg': 'dataurl', '.png': 'dataurl', '.woff2': 'dataurl', '.woff': 'empty', '.ttf': 'empty', '.scss': 'empty' },
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  });
  const of = (ending) => made.outputFiles.find(({ path }) => path.endsWith(ending)).text;
  return { js: of('.js'), css: of('.css') };
}

// Opens the page in a browser and returns its report.
async function draw(dashboard, mode, picture) {
  const width = Number(options.width);
  let settle;
  const told = new Promise((resolve) => {
    settle = resolve;
  });
  const server = createServer((request, response) => serve(request, response, { dashboard, mode, width }, settle));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const profile = mkdtempSync(join(tmpdir(), 'redrive-chromium-'));
  const late = setTimeout(() => settle({ problems: ['the page gave no report in time'], drawn: [] }), PATIENCE);
  try {
    const browser = browse(`http://127.0.0.1:${server.address().port}/`, { profile, picture, width, height: heightOf(dashboard) });
    const [report] = await Promise.all([told, browser]);
    return report;
  } finally {
    clearTimeout(late);
    server.closeAllConnections();
    server.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

function heightOf({ panels }) {
  return 56 + 38 * Math.max(...opened(panels).map(({ gridPos }) => gridPos.y + gridPos.h)) + 4;
}

async function serve(request, response, assignment, settle) {
  const body = await text(request);
  const say = (type, content) => response.writeHead(200, { 'content-type': type }).end(content);
  switch (request.url) {
    case '/':
      return say('text/html; charset=utf-8', `<!doctype html><link rel="stylesheet" href="/page.css"><div id="root"></div>
        <script>window.__ASSIGNMENT__=${JSON.stringify({ ...assignment, from, to }).replaceAll('<', '\\u003c')}</script><script src="/page.js"></script>`);
    case '/page.js':
      return say('text/javascript; charset=utf-8', script.js);
    case '/page.css':
      return say('text/css; charset=utf-8', script.css);
    case '/ask':
      return say('application/json', JSON.stringify(await ranges.ask(JSON.parse(body))));
    case '/report':
      settle(JSON.parse(body));
      return say('text/plain', 'thanks');
    default:
      return response.writeHead(404).end();
  }
}

async function text(request) {
  const parts = [];
  for await (const part of request) {
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}
