// Variables, links, annotations and layout, which all dashboards share.

import { colour } from './palette.mjs';

const WIDTH = 24;
const PROMETHEUS = { type: 'prometheus', uid: '${datasource}' };

const variable = (name, label, query) => ({
  name,
  label,
  type: 'query',
  datasource: PROMETHEUS,
  definition: query,
  query: { query, refId: name },
  refresh: 2,
  sort: 1,
  multi: true,
  includeAll: true,
  allValue: '.+',
  current: { selected: true, text: ['All'], value: ['$__all'] },
  hide: 0,
  options: [],
  regex: '',
  skipUrlSync: false,
});

const VARIABLES = {
  datasource: {
    name: 'datasource',
    label: 'Data source',
    type: 'datasource',
    query: 'prometheus',
    refresh: 1,
    multi: false,
    includeAll: false,
    current: { selected: false, text: 'default', value: 'default' },
    hide: 0,
    options: [],
    regex: '',
    skipUrlSync: false,
  },
  job: variable('job', 'Job', 'label_values(redrive_up, job)'),
  instance: variable('instance', 'Instance', 'label_values(redrive_up{job=~"$job"}, instance)'),
  queue: variable(
    'queue',
    'Queue',
    'label_values(redrive_queue_live_jobs{job=~"$job", instance=~"$instance"}, queue)',
  ),
};

const ANNOTATIONS = {
  list: [
    {
      builtIn: 1,
      datasource: { type: 'grafana', uid: '-- Grafana --' },
      enable: true,
      hide: true,
      iconColor: colour.quiet,
      name: 'Annotations & Alerts',
      type: 'dashboard',
    },
    {
      datasource: PROMETHEUS,
      enable: true,
      expr: 'ALERTS{alertname=~"Redrive.*", alertstate="firing", job=~"$job|"}',
      iconColor: colour.dead,
      name: 'Firing alerts',
      step: '15s',
      tagKeys: 'severity,queue',
      textFormat: '{{queue}}',
      titleFormat: '{{alertname}}',
    },
  ],
};

const LINKS = [
  {
    asDropdown: false,
    icon: 'dashboard',
    includeVars: true,
    keepTime: true,
    tags: ['redrive'],
    targetBlank: false,
    title: 'redrive',
    tooltip: 'The other dashboards of redrive',
    type: 'dashboards',
    url: '',
  },
];

// A row of panels. A folded one is collapsed by default.
export const row = (title, ...panels) => ({ title, panels, collapsed: false });
export const folded = (title, ...panels) => ({ title, panels, collapsed: true });

export function dashboard({ uid, title, description, tags = [], variables, rows }) {
  return {
    uid,
    title,
    description,
    tags: ['redrive', ...tags],
    editable: false,
    graphTooltip: 1,
    schemaVersion: 39,
    version: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timepicker: {},
    timezone: 'browser',
    weekStart: '',
    fiscalYearStartMonth: 0,
    links: LINKS,
    annotations: ANNOTATIONS,
    templating: { list: ['datasource', ...variables].map((name) => VARIABLES[name]) },
    panels: layOut(rows),
  };
}

// Places each panel, in order, as high as possible and then as far left as possible.
function layOut(rows) {
  const panels = [];
  let top = 0;
  let id = 0;
  for (const { title, panels: members, collapsed } of rows) {
    const head = {
      type: 'row',
      id: (id += 1),
      title,
      collapsed,
      gridPos: { h: 1, w: WIDTH, x: 0, y: top },
      panels: [],
    };
    panels.push(head);
    top += 1;
    const heights = new Array(WIDTH).fill(top);
    const inside = members.map((panel) => {
      const { w, h } = panel.gridPos;
      const [x, y] = place(heights, w);
      heights.fill(y + h, x, x + w);
      return { id: (id += 1), ...panel, gridPos: { h, w, x, y } };
    });
    if (collapsed) {
      head.panels = inside;
    } else {
      panels.push(...inside);
      top = Math.max(...heights);
    }
  }
  return panels;
}

function place(heights, w) {
  let best = [0, Infinity];
  for (let x = 0; x + w <= heights.length; x += 1) {
    const y = Math.max(...heights.slice(x, x + w));
    if (y < best[1]) {
      best = [x, y];
    }
  }
  return best;
}
