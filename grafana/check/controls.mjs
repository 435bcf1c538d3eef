// Negative controls: defects that are planted into a copy of a dashboard, and the gate and the
// words by which each must be caught. A gate that lets one through is broken.

import { panelsOf } from './dashboards.mjs';

const of = (dashboard, type) => panelsOf(dashboard).find((panel) => panel.type === type);
const firstTarget = (dashboard) => of(dashboard, 'timeseries').targets[0];
const variable = (dashboard, name) => dashboard.templating.list.find((one) => one.name === name);
const swap = (target, from, to) => {
  if (!target.expr.includes(from)) {
    throw new Error(`the control finds no ${from} in ${target.expr}`);
  }
  target.expr = target.expr.replace(from, to);
};

export const controls = [
  ['schema', /lineWidht/, 'a misspelt option of a field', (d) => { of(d, 'timeseries').fieldConfig.defaults.custom.lineWidht = 1; }],
  ['schema', /gridPos/, 'a place that is a string', (d) => { of(d, 'stat').gridPos.x = '3'; }],
  ['schema', /type speedometer/, 'a type of panel that nobody has', (d) => { of(d, 'stat').type = 'speedometer'; }],
  ['schema', /displayMode/, 'a legend of no kind', (d) => { of(d, 'timeseries').options.legend.displayMode = 'tabel'; }],
  ['schema', /axisPlacment/, 'a misspelt option in an override', (d) => { of(d, 'timeseries').fieldConfig.overrides.push({ matcher: { id: 'byName', options: 'x' }, properties: [{ id: 'custom.axisPlacment', value: 'left' }] }); }],
  ['schema', /titel/, 'a misspelt key of the dashboard', (d) => { d.titel = 'x'; }],
  ['units', /count\/s/, 'a unit that Grafana does not know', (d) => { of(d, 'stat').fieldConfig.defaults.unit = 'count/s'; }],
  ['template-datasource', /datasource/, 'no variable for the data source', (d) => { d.templating.list.shift(); }],
  ['template-job', /allValue/, 'a variable that means nothing when all is chosen', (d) => { variable(d, 'job').allValue = ''; }],
  ['template-instance', /multi/, 'a variable of one value', (d) => { variable(d, 'instance').multi = false; }],
  ['template-label-promql', /job/, 'a variable that asks no PromQL', (d) => { variable(d, 'job').query.query = 'label_values(redrive_up{, job)'; }],
  ['template-on-time-change-reload', /job/, 'a variable that is asked once', (d) => { variable(d, 'job').refresh = 1; }],
  ['uneditable-dashboard', /editable/, 'an editable dashboard', (d) => { d.editable = true; }],
  ['no-inputs', /__inputs/, 'inputs, which provisioning leaves as they are', (d) => { d.__inputs = []; }],
  ['stable-identity', /uid/, 'a uid by chance', (d) => { d.uid = 'a1b2c3'; }],
  ['alert-annotations', /alerts/, 'no alerts on the graphs', (d) => { d.annotations.list.pop(); }],
  ['panel-title-description', /title/, 'a panel without a title', (d) => { of(d, 'stat').title = ''; }],
  ['panel-story', /Type/, 'a description without a command', (d) => { of(d, 'stat').description = '**Healthy:** 0 **Otherwise:** look'; }],
  ['panel-units', /unit/, 'a panel without a unit', (d) => { delete of(d, 'stat').fieldConfig.defaults.unit; }],
  ['panel-no-targets', /target/, 'a panel that asks nothing', (d) => { of(d, 'stat').targets = []; }],
  ['panel-datasource', /data source/, 'a data source of one Grafana', (d) => { firstTarget(d).datasource = { type: 'prometheus', uid: 'PBFA97CFB590B2093' }; }],
  ['panel-least-interval', /15s/, 'no least interval', (d) => { delete of(d, 'stat').interval; }],
  ['panel-links-and-names', /twice/, 'an id that is there twice', (d) => { panelsOf(d)[1].id = panelsOf(d)[0].id; }],
  ['panel-titles-differ', /named/, 'a title that is there twice', (d) => { panelsOf(d)[1].title = panelsOf(d)[0].title; }],
  ['panel-places', /on each other/, 'panels that lie on each other', (d) => { panelsOf(d)[1].gridPos = panelsOf(d)[0].gridPos; }],
  ['panel-colours', /green/, 'a colour that some do not see', (d) => { of(d, 'stat').fieldConfig.defaults.thresholds.steps[0].color = 'green'; }],
  ['panel-overrides', /no series/, 'an override of a series that is not there', (d) => { of(d, 'table').fieldConfig.overrides[0].matcher.options = 'Lngest wait'; }],
  ['target-promql', /PromQL/, 'a query that does not parse', (d) => { firstTarget(d).expr += ')'; }],
  ['target-job', /job/, 'a query of all jobs of Prometheus', (d) => { swap(firstTarget(d), 'job=~"$job"', 'env="x"'); }],
  ['target-instance', /instance/, 'a query of all instances', (d) => { swap(firstTarget(d), 'instance=~"$instance"', 'env="x"'); }],
  ['target-rate-interval', /rate_interval/, 'a fixed window', (d) => { const target = panelsOf(d).flatMap(({ targets }) => targets).find(({ expr }) => expr.includes('[$__rate_interval]')); swap(target, '[$__rate_interval]', '[5m]'); }],
  ['target-counter-agg', /counter/, 'a counter as it is', (d) => { firstTarget(d).expr = 'redrive_jobs_enqueued_total{job=~"$job", instance=~"$instance", queue=~"$queue"}'; }],
  ['target-gauge', /gauge/, 'the rate of a gauge', (d) => { firstTarget(d).expr = 'rate(redrive_up{job=~"$job", instance=~"$instance"}[$__rate_interval])'; }],
  ['target-queue', /queue/, 'a query of all queues', (d) => { firstTarget(d).expr = 'sum(redrive_queue_live_jobs{job=~"$job", instance=~"$instance"})'; }],
  ['target-in-catalogue', /redrive_upp/, 'a metric that does not exist', (d) => { firstTarget(d).expr = 'redrive_upp{job=~"$job", instance=~"$instance"}'; }],
  ['target-groups', /colour/, 'a sum by a label that is not there', (d) => { firstTarget(d).expr = 'sum by (colour) (redrive_up{job=~"$job", instance=~"$instance"})'; }],
  ['target-legend', /summed away/, 'a legend of a label that is summed away', (d) => { Object.assign(firstTarget(d), { expr: 'sum by (job) (redrive_up{job=~"$job", instance=~"$instance"})', legendFormat: '{{instance}}' }); }],
];
