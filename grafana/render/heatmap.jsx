// A heatmap like Grafana's, which is not published as a package: the same frames, axes and exponential
// scale of opacity.

import React, { useEffect, useRef } from 'react';
import { getValueFormat, formattedValueToString } from '@grafana/data';

const LEFT = 62;
const BOTTOM = 24;
const TOP = 8;
const RIGHT = 8;

export function Heatmap({ panel, frame, theme, width, height, range }) {
  const canvas = useRef(null);
  useEffect(() => {
    const { current } = canvas;
    const ratio = window.devicePixelRatio || 1;
    current.width = width * ratio;
    current.height = height * ratio;
    const pen = current.getContext('2d');
    pen.scale(ratio, ratio);
    draw(pen, { panel, frame, theme, width, height, range });
  }, [panel, frame, theme, width, height, range]);
  return <canvas ref={canvas} data-drawn="heatmap" style={{ width, height }} />;
}

function draw(pen, { panel, frame, theme, width, height, range }) {
  const { color, yAxis, cellGap } = panel.options;
  const [time, ...all] = frame.fields;
  const rows = occupied(all);
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const step = time.values.length > 1 ? time.values[1] - time.values[0] : to - from;
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const rowHeight = (height - TOP - BOTTOM) / rows.length;
  const y = (row) => height - BOTTOM - (row + 1) * rowHeight;
  const most = Math.max(...rows.flatMap(({ values }) => values), Number.MIN_VALUE);

  pen.fillStyle = theme.visualization.getColorByName(color.fill);
  rows.forEach(({ values }, row) => {
    values.forEach((count, column) => {
      if (count <= 1e-9) {
        return;
      }
      // As in Grafana, the exponent is applied to the share of the largest cell, in steps.
      const share = Math.ceil((count / most) ** color.exponent * color.steps) / color.steps;
      pen.globalAlpha = Math.min(1, share);
      const left = Math.max(LEFT, x(time.values[column] - step));
      const right = Math.min(width - RIGHT, x(time.values[column]));
      if (right > left) {
        pen.fillRect(left, y(row) + cellGap, right - left - cellGap, rowHeight - cellGap);
      }
    });
  });
  pen.globalAlpha = 1;
  axes(pen, { rows, x, y, rowHeight, unit: yAxis.unit, theme, height, width, from, to });
}

// The buckets with jobs and the empty ones between them, at least four, so that a single row does not fill
// the panel.
function occupied(fields) {
  const filled = fields.map(({ values }) => values.some((count) => count > 1e-9));
  const first = Math.max(0, filled.indexOf(true));
  const last = Math.max(first + 3, filled.lastIndexOf(true));
  return fields.slice(Math.max(0, Math.min(first, fields.length - 4)), last + 1);
}

function axes(pen, { rows, x, y, rowHeight, unit, theme, height, width, from, to }) {
  const format = getValueFormat(unit);
  pen.fillStyle = theme.colors.text.primary;
  pen.font = `12px ${theme.typography.fontFamily}`;
  pen.textAlign = 'right';
  pen.textBaseline = 'middle';
  const every = Math.ceil(16 / rowHeight);
  rows.forEach(({ name }, row) => {
    if (row % every === 0) {
      const label = name === '+Inf' ? '∞' : formattedValueToString(format(Number(name)));
      pen.fillText(label, LEFT - 8, y(row) + rowHeight / 2);
    }
  });
  pen.textAlign = 'center';
  const span = (to - from) / 1000;
  const tick = [15, 30, 60, 120, 300, 600, 900, 1800, 3600].find((s) => span / s <= width / 110) ?? 7200;
  for (let at = Math.ceil(from / 1000 / tick) * tick; at * 1000 <= to; at += tick) {
    const label = new Date(at * 1000).toISOString().slice(11, tick < 60 ? 19 : 16);
    const left = x(at * 1000);
    if (left > LEFT + 14 && left < width - 20) {
      pen.fillText(label, left, height - BOTTOM / 2 + 2);
    }
  }
}
