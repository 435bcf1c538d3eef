// One panel: the frame of Grafana around its components.

import React from 'react';
import { getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BigValue, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

import { Heatmap } from './heatmap.jsx';

const PADDING = 8;

export function Panel({ panel, frames, theme, range, width, height }) {
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height} padding="none">
      {(inner, tall) => (
        <div data-panel={panel.title} style={{ padding: PADDING, width: inner, height: tall }}>
          <Body {...{ panel, frames, theme, range, width: inner - 2 * PADDING, height: tall - 2 * PADDING }} />
        </div>
      )}
    </PanelChrome>
  );
}

function Body(props) {
  const { panel, frames } = props;
  if (panel.type === 'stat') {
    return <Stat {...props} />;
  }
  const isEmpty = frames.length === 0 || frames.every((frame) => frame.length === 0);
  if (isEmpty) {
    return <Nothing {...props} />;
  }
  switch (panel.type) {
    case 'timeseries':
      return <Graph {...props} />;
    case 'heatmap':
      return <Heatmap {...props} frame={frames[0]} />;
    case 'table':
      return <Rows {...props} />;
    default:
      throw new Error(`no component for panels of type ${panel.type}`);
  }
}

// The text that Grafana shows for a query without data.
function Nothing({ panel, theme, width, height }) {
  const text = panel.fieldConfig.defaults.noValue ?? 'No data';
  const style = { width, height, display: 'flex', alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary };
  return <div data-drawn="nothing" style={style}>{text}</div>;
}

function Stat({ panel, frames, theme, width, height }) {
  const { options } = panel;
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    sparkline: options.graphMode === 'area',
    timeZone: 'utc',
  });
  const alignment = getDisplayValueAlignmentFactors(values);
  return (
    <div style={{ display: 'flex' }} data-drawn="stat">
      {values.map(({ display, sparkline }, at) => (
        <BigValue
          key={at}
          theme={theme}
          width={width / values.length}
          height={height}
          value={display}
          count={values.length}
          sparkline={sparkline}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          text={options.text}
          justifyMode={options.justifyMode}
          textMode={options.textMode === 'auto' && values.length === 1 ? 'value' : options.textMode}
          alignmentFactors={alignment}
        />
      ))}
    </div>
  );
}

function Graph({ panel, frames, range, width, height }) {
  return (
    <div data-drawn="graph">
      <TimeSeries
        frames={frames}
        structureRev={1}
        width={width}
        height={height}
        timeRange={range}
        timeZone="utc"
        legend={panel.options.legend}
        options={panel.options}
      >
        {() => null}
      </TimeSeries>
    </div>
  );
}

function Rows({ panel, frames, width, height }) {
  return (
    <div data-drawn="table">
      <TableNG
        data={frames[0]}
        width={width}
        height={height}
        cellHeight={panel.options.cellHeight}
        sortBy={panel.options.sortBy}
        fieldConfig={panel.fieldConfig}
        noValue={panel.fieldConfig.defaults.noValue}
        structureRev={1}
        enableVirtualization={false}
        resizable={false}
      />
    </div>
  );
}
