// Negative controls: defects that are planted into a copy of a dashboard, with the gate that must catch
// each one and a pattern for its message. A gate that misses one is broken.

import { panelsOf } from './dashboards.mjs';

const of = (dashboard, type) => panelsOf(dashboard).find((panel) => panel.type === type);
const firstTarget = (dashboard) => of(dashboard, 'timeseries').targets[0];
const variable = (dashboard, name) => dashboard.templating.list.find((one) => one.name === name);
const swap = (target, from, to) => {
  if (!target.expr.includes(from)) {
    throw new Error(`the control did not find ${from} in ${target.expr}`);
  }
  target.expr = target.expr.replace(from, to);
};

export const controls = [
  ['schema', /lineWidht/, 'a misspelt option of a field', (d) => { of(d, 'timeseries').fieldConfig.defaults.custom.lineWidht = 1; }],
  ['schema', /gridPos/, 'a position that is a string', (d) => { of(d, 'stat').gridPos.x = '3'; }],
  ['schema', /type speedometer/, 'an unknown type of panel', (d) => { of(d, 'stat').type = 'speedometer'; }],
  ['schema', /displayMode/, 'an unknown kind of legend', (d) => { of(d, 'timeseries').options.legend.displayMode = 'tabel'; }],
  ['schema', /axisPlacment/, 'a misspelt option in an override', (d) => { of(d, 'timeseries').fieldConfig.overrides.push({ matcher: { id: 'byName', options: 'x' }, properties: [{ id: 'custom.axisPlacment', value: 'left' }] }); }],
  ['schema', /titel/, 'a misspelt key of the dashboard', (d) => { d.titel = 'x'; }],
  ['units', /count\/s/, 'a unit that Grafana does not know', (d) => { of(d, 'stat').fieldConfig.defaults.unit = 'count/s'; }],
  ['template-datasource', /datasource/, 'no variable for the data source', (d) => { d.templating.list.shift(); }],
  ['template-job', /allValue/, 'a variable without a value for all', (d) => { variable(d, 'job').allValue = ''; }],
  ['template-instance', /multi/, 'a variable with a single value', (d) => { variable(d, 'instance').multi = false; }],
  ['template-label-promql', /job/, 'a variable whose query is not PromQL', (d) => { variable(d, 'job').query.query = 'label_values(redrive_up{, job)'; }],
  ['template-on-time-change-reload', /job/, 'a variable that is not refreshed', (d) => { variable(d, 'job').refresh = 1; }],
  ['uneditable-dashboard', /editable/, 'an editable dashboard', (d) => { d.editable = true; }],
  ['no-inputs', /__inputs/, 'inputs, which provisioning does not resolve', (d) => { d.__inputs = []; }],
  ['stable-identity', /uid/, 'a random uid', (d) => { d.uid = 'a1b2c3'; }],
  ['alert-annotations', /alerts/, 'no annotations for alerts', (d) => { d.annotations.list.pop(); }],
  ['panel-title-description', /title/, 'a panel without a title', (d) => { of(d, 'stat').title = ''; }],
  ['panel-description', /Type/, 'a description without a command', (d) => { of(d, 'stat').description = '**Healthy:** 0 **Otherwise:** look'; }],
  ['panel-units', /unit/, 'a panel without a unit', (d) => { delete of(d, 'stat').fieldConfig.defaults.unit; }],
  ['panel-no-targets', /target/, 'a panel without a query', (d) => { of(d, 'stat').targets = []; }],
  ['panel-datasource', /data source/, 'a fixed data source', (d) => { firstTarget(d).datasource = { type: 'prometheus', uid: 'PBFA97CFB590B2093' }; }],
  ['panel-least-interval', /15s/, 'no minimum interval', (d) => { delete of(d, 'stat').interval; }],
  ['panel-links-and-names', /duplicate/, 'a duplicate id', (d) => { panelsOf(d)[1].id = panelsOf(d)[0].id; }],
  ['panel-titles-differ', /the title/, 'a duplicate title', (d) => { panelsOf(d)[1].title = panelsOf(d)[0].title; }],
  ['panel-places', /overlap/, 'panels that overlap', (d) => { panelsOf(d)[1].gridPos = panelsOf(d)[0].gridPos; }],
  ['panel-colours', /green/, 'a colour that is not in the palette', (d) => { of(d, 'stat').fieldConfig.defaults.thresholds.steps[0].color = 'green'; }],
  ['panel-overrides', /no series/, 'an override of an unknown series', (d) => { of(d, 'table').fieldConfig.overrides[0].matcher.options = 'Lngest wait'; }],
  ['target-promql', /PromQL/, 'a query that does not parse', (d) => { firstTarget(d).expr += ')'; }],
  ['target-job', /job/, 'a query without a matcher of the job', (d) => { swap(firstTarget(d), 'job=~"$job"', 'env="x"'); }],
  ['target-instance', /instance/, 'a query without a matcher of the instance', (d) => { swap(firstTarget(d), 'instance=~"$instance"', 'env="x"'); }],
  ['target-rate-interval', /rate_interval/, 'a fixed window', (d) => { const target = panelsOf(d).flatMap(({ targets }) => targets).find(({ expr }) => expr.includes('[$__rate_interval]')); swap(target, '[$__rate_interval]', '[1d]'); }],
  ['target-counter-agg', /counter/, 'a counter without a rate', (d) => { firstTarget(d).expr = 'redrive_jobs_enqueued_total{job=~"$job", instance=~"$instance", queue=~"$queue"}'; }],
  ['target-gauge', /gauge/, 'the rate of a gauge', (d) => { firstTarget(d).expr = 'rate(redrive_up{job=~"$job", instance=~"$instance"}[$__rate_interval])'; }],
  ['target-queue', /queue/, 'a query without a matcher of the queue', (d) => { firstTarget(d).expr = 'sum(redrive_queue_live_jobs{job=~"$job", instance=~"$instance"})'; }],
  ['target-in-catalogue', /redrive_upp/, 'a metric that does not exist', (d) => { firstTarget(d).expr = 'redrive_upp{job=~"$job", instance=~"$instance"}'; }],
  ['target-groups', /colour/, 'a sum by an unknown label', (d) => { firstTarget(d).expr = 'sum by (colour) (redrive_up{job=~"$job", instance=~"$instance"})'; }],
  ['target-legend', /aggregated away/, 'a legend with a label that is aggregated away', (d) => { Object.assign(firstTarget(d), { expr: 'sum by (job) (redrive_up{job=~"$job", instance=~"$instance"})', legendFormat: '{{instance}}' }); }],
];
