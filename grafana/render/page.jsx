// Draws one dashboard for one time range and reports errors.

import React from 'react';
import { createRoot } from 'react-dom/client';
import { createTheme, standardTransformers, standardTransformersRegistry, ThemeContext } from '@grafana/data';
import { GlobalStyles } from '@grafana/ui';
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import 'uplot/dist/uPlot.min.css';

import { fieldOptions, framesOf } from './frames.mjs';
import { opened } from './layout.mjs';
import { Panel } from './panel.jsx';

// The grid of Grafana.
const CELL = 30;
const GAP = 8;
const HEAD = 56;
// How often to check whether all is drawn, and the interval in milliseconds.
const TURNS = 60;
const TURN = 250;

const { dashboard, mode, from, to, width } = window.__ASSIGNMENT__;
const theme = createTheme({ colors: { mode } });
const range = moments(from, to);
const problems = [];

standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: () => Promise.resolve(transformation),
    aliasIds: [],
    editor: () => null,
    imageDark: '',
    imageLight: '',
  })),
);

function moments(begin, end) {
  const moment = (seconds) => ({ valueOf: () => seconds * 1000 });
  return { from: moment(begin), to: moment(end), raw: { from: 'now-1h', to: 'now' } };
}

async function ask(target, panel) {
  const response = await fetch('/ask', {
    method: 'POST',
    body: JSON.stringify({ target, interval: panel.interval, points: panel.gridPos.w * 60 }),
  });
  const answer = await response.json();
  if (answer.status !== 'success') {
    throw new Error(`query ${target.refId}: ${answer.error}`);
  }
  return answer.data.result;
}

class Guard extends React.Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  componentDidCatch(error) {
    problems.push(`${this.props.title}: ${error.message}`);
  }
  render() {
    return this.state.error ? null : this.props.children;
  }
}

function Board({ items }) {
  const column = (width - GAP) / 24;
  const place = ({ x, y, w, h }) => ({
    position: 'absolute',
    left: GAP + x * column,
    top: HEAD + y * (CELL + GAP),
    width: w * column - GAP,
    height: h * (CELL + GAP) - GAP,
  });
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles hackNoBackdropBlur isExtensionSidebarOpen={false} />
      <div style={{ position: 'absolute', inset: 0, minHeight: window.innerHeight, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
        <Title />
        {items.map(({ panel, frames }) => {
          const box = place(panel.gridPos);
          return (
            <div key={panel.id} style={box}>
              {panel.type === 'row' ? (
                <RowHead title={panel.title} />
              ) : (
                <Guard title={panel.title}>
                  <Panel {...{ panel, frames, theme, range, width: box.width, height: box.height }} />
                </Guard>
              )}
            </div>
          );
        })}
      </div>
    </ThemeContext.Provider>
  );
}

function Title() {
  const picker = { padding: '3px 10px', border: `1px solid ${theme.colors.border.medium}`, borderRadius: 4, color: theme.colors.text.secondary, fontSize: 13 };
  return (
    <div style={{ height: HEAD - GAP, padding: '0 12px', display: 'flex', alignItems: 'center', gap: 10 }}>
      <div style={{ fontSize: 20, fontWeight: 500, marginRight: 'auto' }}>{dashboard.title}</div>
      {dashboard.templating.list.map(({ name, label, type }) => (
        <div key={name} style={picker}>
          {label} <span style={{ color: theme.colors.text.primary }}>{type === 'datasource' ? 'Prometheus' : 'All'}</span>
        </div>
      ))}
    </div>
  );
}

function RowHead({ title }) {
  return <div style={{ height: '100%', display: 'flex', alignItems: 'center', paddingLeft: 6, fontSize: 16, fontWeight: 500 }}>⌄&nbsp; {title}</div>;
}

async function main() {
  const panels = opened(dashboard.panels);
  const options = fieldOptions(panels.filter(({ type }) => type !== 'row'));
  const items = await Promise.all(
    panels.map(async (panel) => {
      if (panel.type === 'row') {
        return { panel };
      }
      try {
        return { panel, frames: await framesOf(panel, { ask, theme, options }) };
      } catch (error) {
        problems.push(`${panel.title}: ${error.message}`);
        return { panel, frames: [] };
      }
    }),
  );
  await document.fonts.load('14px Inter');
  await document.fonts.load('500 14px Inter');
  createRoot(document.getElementById('root')).render(<Board items={items} />);
  await settled(items);
  report(items);
}

// Waits until each canvas is drawn, or until the timeout.
async function settled(items) {
  for (let turn = 0; turn < TURNS; turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, TURN));
    if (outcome(items).every(({ what, inks: ink }) => what !== 'not drawn' && (ink === null || ink > 0))) {
      return;
    }
  }
}

// Reports each panel to the gate.
function outcome(items) {
  return items
    .filter(({ panel }) => panel.type !== 'row')
    .map(({ panel, frames }) => {
      const box = document.querySelector(`[data-panel="${CSS.escape(panel.title)}"]`);
      const what = box?.querySelector('[data-drawn]')?.dataset.drawn ?? 'not drawn';
      const isPicture = what === 'graph' || what === 'heatmap';
      return {
        title: panel.title,
        type: panel.type,
        what,
        values: valuesOf(frames),
        inks: isPicture ? inks(box) : null,
        text: box?.innerText ?? '',
      };
    });
}

function report(items) {
  fetch('/report', { method: 'POST', body: JSON.stringify({ problems, drawn: outcome(items) }) });
}

// The number of values to show.
function valuesOf(frames) {
  const numbers = frames.flatMap(({ fields }) => fields.filter(({ type }) => type === 'number'));
  return numbers.reduce((sum, { values }) => sum + values.filter(Number.isFinite).length, 0);
}

// The number of drawn pixels on the canvases of a panel.
function inks(box) {
  let count = 0;
  for (const canvas of box?.querySelectorAll('canvas') ?? []) {
    if (canvas.width > 0 && canvas.height > 0) {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      for (let at = 3; at < data.length; at += 4) {
        count += data[at] > 0 ? 1 : 0;
      }
    }
  }
  return count;
}

main().catch((error) => {
  problems.push(String(error.stack ?? error));
  report([]);
});
