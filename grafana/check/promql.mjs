// Parses PromQL with the grammar of Prometheus: the selectors of a query and their functions.

import { parser } from '@prometheus-io/lezer-promql';

// Values for the variables of Grafana, so that the query parses.
const STAND_INS = {
  __rate_interval: '1m',
  __range: '1h',
  __interval: '15s',
};
const REDUCTIONS = /^[a-z_]+$/;

export function parse(expr) {
  const text = expr.replace(/\$\{?(__\w+)\}?/g, (whole, name) => STAND_INS[name] ?? whole);
  const tree = parser.parse(text);
  let broken = null;
  tree.iterate({
    enter: (node) => {
      if (node.type.isError) {
        broken ??= node.from;
      }
    },
  });
  return { text, tree, broken };
}

// Each series selector: `{name, matchers: [{label, op, value}], functions: [outermost … innermost],
// range, grouping}`. `range` is the source text, before variables are replaced.
export function selectorsOf(expr) {
  const { text, tree } = parse(expr);
  const written = ranges(expr);
  const found = [];
  tree.iterate({
    enter: (node) => {
      if (node.name !== 'VectorSelector') {
        return;
      }
      const matrix = node.node.parent?.name === 'MatrixSelector' ? node.node.parent : null;
      found.push({
        name: part(text, node.node.getChild('Identifier')) ?? '',
        matchers: matchersOf(text, node.node),
        functions: functionsAround(text, node.node),
        range: matrix ? written.shift() : null,
      });
    },
  });
  return found;
}

// The labels of aggregations and joins.
export function groupedBy(expr) {
  const { text, tree } = parse(expr);
  const labels = new Set();
  tree.iterate({
    enter: (node) => {
      if (node.name === 'LabelName' && node.node.parent?.name === 'GroupingLabels') {
        labels.add(text.slice(node.from, node.to));
      }
    },
  });
  return labels;
}

// The ranges in brackets, in order. No string literal in our queries contains one.
function ranges(expr) {
  return [...expr.matchAll(/\[(\$\{?__\w+\}?|\d+[smhdwy])\]/g)].map(([, range]) => range);
}

function part(text, node) {
  return node ? text.slice(node.from, node.to) : null;
}

function matchersOf(text, selector) {
  const list = selector.getChild('LabelMatchers');
  return (list?.getChildren('UnquotedLabelMatcher') ?? []).map((matcher) => ({
    label: part(text, matcher.getChild('LabelName')),
    op: part(text, matcher.getChild('MatchOp')),
    value: JSON.parse(part(text, matcher.getChild('StringLiteral'))),
  }));
}

function functionsAround(text, node) {
  const names = [];
  for (let up = node.parent; up; up = up.parent) {
    const name = part(text, up.getChild('FunctionIdentifier') ?? up.getChild('AggregateOp'));
    if ((up.name === 'FunctionCall' || up.name === 'AggregateExpr') && name && REDUCTIONS.test(name)) {
      names.unshift(name);
    }
  }
  return names;
}
